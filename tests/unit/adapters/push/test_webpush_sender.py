"""Web Push sender: requests, receipts and behavior on faults, for every push service."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.devkit.fake_providers.behavior import FaultWindow, ProviderScript
from notifier.devkit.fake_providers.fake_browser import Browser, ShownNotification
from notifier.devkit.fake_providers.webpush_refusals import RefusalDialect
from notifier.domain.ids import UserId
from notifier.domain.push.alert import MentionAlert, burst_alert, summary_alert
from notifier.domain.push.device import AppleToken, Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, RetryAt, Unknown
from notifier.domain.push.translations import PHRASES_BY_LANGUAGE
from notifier.ports.push import NoReply, Post, Provider
from tests.support.alert_sender_builders import ALERT
from tests.support.domain_examples import HOUR, MINUTE, NOON, SECOND, burst
from tests.support.web_push_browsers import World, device, vapid

every_service = pytest.mark.parametrize("dialect", list(RefusalDialect))


@pytest.fixture
def world() -> World:
    return World()


def on_screen(world: World, browser: Browser) -> list[str]:
    """Return the titles of the notifications that the browser shows."""
    return [*world.phone(browser).shown.values()]


def header(post: Post, name: str) -> str:
    [value] = [value for field, value in post.headers if field == name]
    return value


@every_service
def test_alert_is_shown_by_its_browser(world: World, dialect: RefusalDialect) -> None:
    browser = world.browser(dialect)
    assert world.send(device(browser, locale="de-AT")) == [Accepted()]
    notification = browser.read(world.posts[0].body)
    assert notification == ShownNotification(title="ada hat @nova erwähnt", tag=ALERT.collapse_id, language="de")
    assert on_screen(world, browser) == [notification.title]


def test_each_push_service_gets_its_own_token(world: World) -> None:
    browsers = [world.browser(dialect) for dialect in (*RefusalDialect, *RefusalDialect)]
    assert world.send(*[device(browser, member) for member, browser in enumerate(browsers)]) == [Accepted()] * 6
    assert [on_screen(world, browser) for browser in browsers] == [["ada mentioned @nova"]] * 6
    assert len({header(post, "authorization") for post in world.posts}) == 3


def test_every_message_has_its_own_key_pair(world: World) -> None:
    browser = world.browser()
    world.send(*[device(browser, member) for member in range(20)])
    # RFC 8188: after 21 bytes, the header contains our public key of 65 bytes.
    assert len({post.body[21:86] for post in world.posts}) == 20


def test_request_has_ttl_urgency_and_topic(world: World) -> None:
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


def test_summary_has_normal_urgency(world: World) -> None:
    browser = world.browser()
    world.send(device(browser), alert=summary_alert(burst(), 3))
    assert header(world.posts[0], "urgency") == "normal"
    assert on_screen(world, browser) == ["While you were away: 3 about @nova"]


@pytest.mark.parametrize(("delay", "ttl"), [(-timedelta(days=60), "2592000"), (6 * HOUR, "0"), (7 * HOUR, "0")])
def test_ttl_is_within_push_service_limits(world: World, delay: timedelta, ttl: str) -> None:
    world.clock.advance(delay)
    assert world.send(device(world.browser())) == [Accepted()]
    assert header(world.posts[0], "ttl") == ttl


def test_resent_alert_replaces_only_itself(world: World) -> None:
    browser = world.browser()
    second = burst_alert(replace(burst(), tweet="t2"))
    for message in (ALERT, second, ALERT):
        world.send(device(browser), alert=message)
    assert on_screen(world, browser) == ["ada mentioned @nova"] * 2


def test_offline_browser_gets_each_alert_once(world: World) -> None:
    browser = world.browser()
    browser.is_online = False
    for message in (ALERT, burst_alert(replace(burst(), tweet="t2")), ALERT):
        world.send(device(browser), alert=message)
    world.services[RefusalDialect.GOOGLE].bring_online(browser)
    assert world.phone(browser).alert_count == 2


def test_expired_alert_is_not_shown_to_returning_browser(world: World) -> None:
    browser = world.browser()
    browser.is_online = False
    world.send(device(browser))
    world.clock.advance(7 * HOUR)
    world.services[RefusalDialect.GOOGLE].bring_online(browser)
    assert world.phone(browser).alert_count == 0


@every_service
def test_browser_without_permission_is_dropped(world: World, dialect: RefusalDialect) -> None:
    browser = world.browser(dialect)
    browser.is_revoked = True
    assert isinstance(world.send(device(browser))[0], DropDevice)


def test_unknown_subscription_is_dropped(world: World) -> None:
    subscription = world.browser().subscription
    nowhere = replace(subscription, endpoint="https://fcm.googleapis.com/wp/nobody")
    assert isinstance(world.send(replace(device(world.browser()), address=nowhere))[0], DropDevice)


@every_service
def test_key_that_fits_no_subscription_is_a_config_error(world: World, dialect: RefusalDialect) -> None:
    browser = world.browser(dialect)
    world.sender = replace(world.sender, vapid=vapid(number=8))
    [receipt] = world.send(device(browser))
    assert isinstance(receipt, ConfigError)
    assert browser.endpoint not in receipt.reason
    assert on_screen(world, browser) == []


@every_service
def test_clock_two_hours_off_does_not_stop_alerts(world: World, dialect: RefusalDialect) -> None:
    browsers = [world.browser(dialect), world.browser(dialect)]
    slow, fast = (replace(world.sender, clock=World().clock) for _ in range(2))
    for sender, offset, browser in ((slow, -2 * HOUR, browsers[0]), (fast, 2 * HOUR, browsers[1])):
        sender.clock.advance(offset)  # type: ignore[attr-defined]  # a ManualClock
        assert [receipt for _, receipt in sender.send(ALERT, [device(browser)])] == [Accepted()]


def test_clock_days_off_is_a_config_error(world: World) -> None:
    browser = world.browser()
    sender = replace(world.sender, clock=World().clock)
    sender.clock.advance(timedelta(days=-3))  # type: ignore[attr-defined]  # a ManualClock
    assert [type(receipt) for _, receipt in sender.send(ALERT, [device(browser)])] == [ConfigError]


@every_service
def test_rate_limited_browser_is_retried_at_the_stated_time(world: World, dialect: RefusalDialect) -> None:
    world.script(ProviderScript(limited=FaultWindow(duration=10 * MINUTE)), dialect)
    receipts = world.send(device(world.browser(dialect)), device(world.browser(RefusalDialect.APPLE), 2))
    assert isinstance(receipts[0], RetryAt)
    assert receipts[0].at == NOON + 10 * MINUTE
    if dialect is not RefusalDialect.APPLE:
        assert receipts[1] == Accepted()
    world.clock.advance(10 * MINUTE)
    assert world.send(device(world.browser(dialect))) == [Accepted()]


@every_service
def test_retries_after_503_are_spread(world: World, dialect: RefusalDialect) -> None:
    world.script(ProviderScript(down=FaultWindow(duration=HOUR)), dialect)
    random_numbers = iter([0.0, 0.999])
    world.sender = replace(world.sender, random=lambda: next(random_numbers))
    receipts = world.send(device(world.browser(dialect)), device(world.browser(dialect), 2))
    assert [receipt.at for receipt in receipts if isinstance(receipt, RetryAt)] == [
        NOON + 10 * SECOND,
        NOON + 19.99 * SECOND,
    ]


def test_too_large_body_is_a_payload_error(world: World) -> None:
    world.services[RefusalDialect.GOOGLE].max_body_bytes = 100
    assert isinstance(world.send(device(world.browser()))[0], PayloadError)


def test_redirect_to_private_address_is_not_followed(world: World) -> None:
    world.services[RefusalDialect.GOOGLE].redirect = "https://10.0.0.1/latest/meta-data/"
    [receipt] = world.send(device(world.browser()))
    assert isinstance(receipt, RetryAt)
    assert "are not followed" in receipt.reason
    assert len(world.posts) == 1


def test_missing_response_is_unknown_and_retry_replaces_alert(world: World) -> None:
    browser = world.browser()

    def deliver_without_answer(post: Post) -> NoReply:
        world.answer(post)
        return NoReply(reason="no response in time", may_have_arrived=True)

    world.wire.override = deliver_without_answer
    assert world.send(device(browser)) == [Unknown(reason="no response in time")]
    world.wire.override = lambda _: None
    assert world.send(device(browser)) == [Accepted()]
    assert on_screen(world, browser) == ["ada mentioned @nova"]


def test_unsent_message_is_retried(world: World) -> None:
    world.wire.override = lambda _: NoReply(reason="cut", may_have_arrived=False)
    assert world.send(device(world.browser())) == [RetryAt(at=NOON + 15 * SECOND, reason="cut")]


def test_subscription_with_foreign_key_is_dropped_if_ours_is_good(world: World) -> None:
    matching, foreign = world.browser(), world.browser(key=vapid(number=8).public_key)
    receipts = world.send(device(matching), device(foreign, 2))
    assert receipts == [Accepted(), DropDevice(reason="OtherKey")]


def test_device_of_another_platform_raises_type_error(world: World) -> None:
    phone = replace(device(world.browser()), address=AppleToken(token="00", topic="app"))
    with pytest.raises(TypeError, match="not a browser device"):
        world.send(phone)


def test_no_devices_means_no_request(world: World) -> None:
    assert world.send() == []
    assert world.posts == []


def test_devices_are_read_lazily(world: World) -> None:
    read: list[Device] = []

    def devices() -> Iterator[Device]:
        for number in range(5):
            read.append(device(world.browser(), number))
            yield read[-1]

    receipts = iter(world.sender.send(ALERT, devices()))
    for number in range(1, 6):
        next(receipts)
        assert len(read) == number


def test_sender_implements_provider(world: World) -> None:
    provider: Provider = world.sender
    assert list(provider.send(ALERT, [])) == []


@given(st.text(max_size=300), st.sampled_from([*PHRASES_BY_LANGUAGE, "", "xx", "de-AT", "zh-Hant-TW", "EN_us"]))
@settings(max_examples=60)
def test_any_name_is_shown_as_written_in_any_language(opener: str, locale: str) -> None:
    world = World()
    browser = world.browser()
    message = replace(ALERT, content=MentionAlert(opener=UserId(opener)))
    assert world.send(device(browser, locale=locale), alert=message) == [Accepted()]
    [title] = on_screen(world, browser)
    text = message.text_in(locale).encode("utf-8", "replace").decode()
    assert title == text or (title.endswith("…") and text.startswith(title.removesuffix("…").rstrip()))
