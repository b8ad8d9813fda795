"""Alerts reach browsers as their push services want them, each with its receipt; and nothing else is reached."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.devkit.fake_providers.behaviour import FaultWindow, ProviderScript
from notifier.devkit.fake_providers.browser import Browser, ShownNotification
from notifier.devkit.fake_providers.webpush_refusals import Manner
from notifier.domain.ids import UserId
from notifier.domain.push.alert import MentionAlert, alert, summary
from notifier.domain.push.device import AppleToken, Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, RetryAt, Unknown
from notifier.domain.push.translations import PHRASES
from notifier.ports.push import Post, Provider, Silence
from tests.support.examples import HOUR, MINUTE, NOON, SECOND, burst
from tests.support.push_browsers import World, device, vapid
from tests.support.push_builders import ALERT

each_manner = pytest.mark.parametrize("manner", list(Manner))


@pytest.fixture
def world() -> World:
    return World()


def on_screen(world: World, browser: Browser) -> list[str]:
    return [*world.phone(browser).shows.values()]


def header(post: Post, name: str) -> str:
    [value] = [value for given, value in post.headers if given == name]
    return value


@each_manner
def test_an_alert_is_read_by_the_browser_that_it_is_for(world: World, manner: Manner) -> None:
    browser = world.browser(manner)
    assert world.send(device(browser, locale="de-AT")) == [Accepted()]
    shown = browser.read(world.posts[0].body)
    assert shown == ShownNotification(title="ada hat @nova erwähnt", tag=ALERT.collapse_id, language="de")
    assert on_screen(world, browser) == [shown.title]


def test_browsers_of_all_kinds_are_reached_at_once_each_with_its_own_token(world: World) -> None:
    browsers = [world.browser(manner) for manner in (*Manner, *Manner)]
    assert world.send(*[device(browser, member) for member, browser in enumerate(browsers)]) == [Accepted()] * 6
    assert [on_screen(world, browser) for browser in browsers] == [["ada mentioned @nova"]] * 6
    assert len({header(post, "authorization") for post in world.posts}) == 3


def test_every_message_has_keys_of_its_own(world: World) -> None:
    browser = world.browser()
    world.send(*[device(browser, member) for member in range(20)])
    assert len({post.body[21:86] for post in world.posts}) == 20


def test_a_post_says_how_long_how_loudly_and_in_place_of_what(world: World) -> None:
    world.clock.advance(90 * SECOND)
    world.send(device(world.browser()))
    [post] = world.posts
    assert dict(post.headers) | {"authorization": ""} == {
        "authorization": "",
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(6 * 3600 - 90),
        "urgency": "high",
        "topic": header(post, "topic"),
    }
    assert len(header(post, "topic")) == 32


def test_a_summary_wakes_nobody(world: World) -> None:
    browser = world.browser()
    world.send(device(browser), alert=summary(burst(), 3))
    assert header(world.posts[0], "urgency") == "normal"
    assert on_screen(world, browser) == ["While you were away: 3 about @nova"]


@pytest.mark.parametrize(("later", "ttl"), [(-timedelta(days=60), "2592000"), (6 * HOUR, "0"), (7 * HOUR, "0")])
def test_a_life_stays_within_what_push_services_take(world: World, later: timedelta, ttl: str) -> None:
    world.clock.advance(later)
    assert world.send(device(world.browser())) == [Accepted()]
    assert header(world.posts[0], "ttl") == ttl


def test_an_alert_that_is_sent_again_replaces_itself_and_no_other(world: World) -> None:
    browser = world.browser()
    other = alert(replace(burst(), tweet="t2"))
    for one in (ALERT, other, ALERT):
        world.send(device(browser), alert=one)
    assert on_screen(world, browser) == ["ada mentioned @nova"] * 2


def test_while_a_browser_is_away_its_push_service_keeps_one_of_each(world: World) -> None:
    browser = world.browser()
    browser.online = False
    for one in (ALERT, alert(replace(burst(), tweet="t2")), ALERT):
        world.send(device(browser), alert=one)
    world.services[Manner.GOOGLE].wake(browser)
    assert world.phone(browser).rang == 2


def test_what_is_over_isn_t_shown_to_who_comes_back_later(world: World) -> None:
    browser = world.browser()
    browser.online = False
    world.send(device(browser))
    world.clock.advance(7 * HOUR)
    world.services[Manner.GOOGLE].wake(browser)
    assert world.phone(browser).rang == 0


@each_manner
def test_who_has_taken_the_permission_away_is_dropped(world: World, manner: Manner) -> None:
    browser = world.browser(manner)
    browser.gone = True
    assert isinstance(world.send(device(browser))[0], DropToken)


def test_a_subscription_that_the_push_service_never_had_is_dropped(world: World) -> None:
    known = world.browser().subscription
    nowhere = replace(known, endpoint="https://fcm.googleapis.com/wp/nobody")
    assert isinstance(world.send(replace(device(world.browser()), address=nowhere))[0], DropToken)


@each_manner
def test_a_key_that_isn_t_the_one_browsers_subscribed_with_is_a_config_error(world: World, manner: Manner) -> None:
    browser = world.browser(manner)
    world.sender = replace(world.sender, vapid=vapid(number=8))
    [found] = world.send(device(browser))
    assert isinstance(found, ConfigError)
    assert browser.endpoint not in found.reason
    assert on_screen(world, browser) == []


@each_manner
def test_a_clock_that_is_two_hours_off_stops_nothing(world: World, manner: Manner) -> None:
    browsers = [world.browser(manner), world.browser(manner)]
    behind, ahead = (replace(world.sender, clock=World().clock) for _ in range(2))
    for sender, off, browser in ((behind, -2 * HOUR, browsers[0]), (ahead, 2 * HOUR, browsers[1])):
        sender.clock.advance(off)  # type: ignore[attr-defined]  # one that is turned by hand
        assert [receipt for _, receipt in sender.send(ALERT, [device(browser)])] == [Accepted()]


def test_a_clock_that_is_days_off_is_a_config_error_and_drops_nobody(world: World) -> None:
    browser = world.browser()
    sender = replace(world.sender, clock=World().clock)
    sender.clock.advance(timedelta(days=-3))  # type: ignore[attr-defined]  # one that is turned by hand
    assert [type(receipt) for _, receipt in sender.send(ALERT, [device(browser)])] == [ConfigError]


@each_manner
def test_who_is_asked_to_wait_is_told_until_when(world: World, manner: Manner) -> None:
    world.script(ProviderScript(limited=FaultWindow(lasting=10 * MINUTE)), manner)
    found = world.send(device(world.browser(manner)), device(world.browser(Manner.APPLE), 2))
    assert isinstance(found[0], RetryAt)
    assert found[0].at == NOON + 10 * MINUTE
    if manner is not Manner.APPLE:
        assert found[1] == Accepted()
    world.clock.advance(10 * MINUTE)
    assert world.send(device(world.browser(manner))) == [Accepted()]


@each_manner
def test_a_storm_of_503_is_for_later_and_not_all_at_once(world: World, manner: Manner) -> None:
    world.script(ProviderScript(down=FaultWindow(lasting=HOUR)), manner)
    chances = iter([0.0, 0.999])
    world.sender = replace(world.sender, chance=lambda: next(chances))
    found = world.send(device(world.browser(manner)), device(world.browser(manner), 2))
    assert [one.at for one in found if isinstance(one, RetryAt)] == [NOON + 10 * SECOND, NOON + 19.99 * SECOND]


def test_a_body_that_is_too_large_is_our_mistake(world: World) -> None:
    world.services[Manner.GOOGLE].largest = 100
    assert isinstance(world.send(device(world.browser()))[0], PayloadError)


def test_a_redirect_to_a_private_address_is_not_followed(world: World) -> None:
    world.services[Manner.GOOGLE].redirect = "https://10.0.0.1/latest/meta-data/"
    [found] = world.send(device(world.browser()))
    assert isinstance(found, RetryAt)
    assert "isn't followed" in found.reason
    assert len(world.posts) == 1


def test_an_answer_that_never_comes_leaves_it_open_and_the_next_try_replaces_it(world: World) -> None:
    browser = world.browser()

    def taken_and_lost(post: Post) -> Silence:
        world.answer(post)
        return Silence(reason="no answer in time", left=True)

    world.wire.instead = taken_and_lost
    assert world.send(device(browser)) == [Unknown(reason="no answer in time")]
    world.wire.instead = lambda _: None
    assert world.send(device(browser)) == [Accepted()]
    assert on_screen(world, browser) == ["ada mentioned @nova"]


def test_what_never_left_is_for_later(world: World) -> None:
    world.wire.instead = lambda _: Silence(reason="cut", left=False)
    assert world.send(device(world.browser())) == [RetryAt(at=NOON + 15 * SECOND, reason="cut")]


def test_who_subscribed_with_another_key_is_dropped_where_ours_is_good(world: World) -> None:
    mine, another = world.browser(), world.browser(key=vapid(number=8).public)
    found = world.send(device(mine), device(another, 2))
    assert found == [Accepted(), DropToken(reason="OtherKey")]


def test_another_platform_s_device_is_a_broken_promise(world: World) -> None:
    phone = replace(device(world.browser()), address=AppleToken(token="00", topic="app"))
    with pytest.raises(TypeError, match="no browser"):
        world.send(phone)


def test_for_nobody_nothing_is_sent(world: World) -> None:
    assert world.send() == []
    assert world.posts == []


def test_devices_are_taken_as_there_is_room_for_them_and_not_ahead(world: World) -> None:
    taken: list[Device] = []

    def devices() -> Iterator[Device]:
        for number in range(5):
            taken.append(device(world.browser(), number))
            yield taken[-1]

    sending = iter(world.sender.send(ALERT, devices()))
    for number in range(1, 6):
        next(sending)
        assert len(taken) == number


def test_it_is_a_provider(world: World) -> None:
    provider: Provider = world.sender
    assert list(provider.send(ALERT, [])) == []


@given(st.text(max_size=300), st.sampled_from([*PHRASES, "", "xx", "de-AT", "zh-Hant-TW", "EN_us"]))
@settings(max_examples=60)
def test_any_name_in_any_language_is_read_as_it_was_written(opener: str, locale: str) -> None:
    world = World()
    browser = world.browser()
    said = replace(ALERT, news=MentionAlert(opener=UserId(opener)))
    assert world.send(device(browser, locale=locale), alert=said) == [Accepted()]
    [title] = on_screen(world, browser)
    whole = said.text_in(locale).encode("utf-8", "replace").decode()
    assert title == whole or (title.endswith("…") and whole.startswith(title.removesuffix("…").rstrip()))
