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
from tests.support.apns_and_fcm_senders import ALERT
from tests.support.domain_examples import HOUR, MINUTE, NOON, SECOND, burst
from tests.support.web_push_browsers import WebPushSetup, device, vapid

every_service = pytest.mark.parametrize("dialect", list(RefusalDialect))


@pytest.fixture
def web_push() -> WebPushSetup:
    return WebPushSetup()


def on_screen(web_push: WebPushSetup, browser: Browser) -> list[str]:
    """Return the titles of the notifications that the browser shows."""
    return [*web_push.phone(browser).shown.values()]


def header(post: Post, name: str) -> str:
    [value] = [value for field, value in post.headers if field == name]
    return value


@every_service
def test_alert_is_shown_by_its_browser(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    browser = web_push.browser(dialect)
    assert web_push.send(device(browser, locale="de-AT")) == [Accepted()]
    notification = browser.read(web_push.posts[0].body)
    assert notification == ShownNotification(title="ada hat @nova erwähnt", tag=ALERT.collapse_id, language="de")
    assert on_screen(web_push, browser) == [notification.title]


def test_each_push_service_gets_its_own_token(web_push: WebPushSetup) -> None:
    browsers = [web_push.browser(dialect) for dialect in (*RefusalDialect, *RefusalDialect)]
    assert web_push.send(*[device(browser, member) for member, browser in enumerate(browsers)]) == [Accepted()] * 6
    assert [on_screen(web_push, browser) for browser in browsers] == [["ada mentioned @nova"]] * 6
    assert len({header(post, "authorization") for post in web_push.posts}) == 3


def test_every_message_has_its_own_key_pair(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    web_push.send(*[device(browser, member) for member in range(20)])
    # RFC 8188: after 21 bytes, the header contains our public key of 65 bytes.
    assert len({post.body[21:86] for post in web_push.posts}) == 20


def test_request_has_ttl_urgency_and_topic(web_push: WebPushSetup) -> None:
    web_push.clock.advance(90 * SECOND)
    web_push.send(device(web_push.browser()))
    [post] = web_push.posts
    assert dict(post.headers) | {"authorization": ""} == {
        "authorization": "",
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(6 * 3600 - 90),
        "urgency": "high",
        "topic": header(post, "topic"),
    }
    assert len(header(post, "topic")) == 32


def test_summary_has_normal_urgency(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    web_push.send(device(browser), alert=summary_alert(burst(), 3))
    assert header(web_push.posts[0], "urgency") == "normal"
    assert on_screen(web_push, browser) == ["While you were away: 3 about @nova"]


@pytest.mark.parametrize(("delay", "ttl"), [(-timedelta(days=60), "2592000"), (6 * HOUR, "0"), (7 * HOUR, "0")])
def test_ttl_is_within_push_service_limits(web_push: WebPushSetup, delay: timedelta, ttl: str) -> None:
    web_push.clock.advance(delay)
    assert web_push.send(device(web_push.browser())) == [Accepted()]
    assert header(web_push.posts[0], "ttl") == ttl


def test_resent_alert_replaces_only_itself(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    second = burst_alert(replace(burst(), tweet="t2"))
    for message in (ALERT, second, ALERT):
        web_push.send(device(browser), alert=message)
    assert on_screen(web_push, browser) == ["ada mentioned @nova"] * 2


def test_offline_browser_gets_each_alert_once(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    browser.is_online = False
    for message in (ALERT, burst_alert(replace(burst(), tweet="t2")), ALERT):
        web_push.send(device(browser), alert=message)
    web_push.services[RefusalDialect.GOOGLE].bring_online(browser)
    assert web_push.phone(browser).alert_count == 2


def test_expired_alert_is_not_shown_to_returning_browser(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    browser.is_online = False
    web_push.send(device(browser))
    web_push.clock.advance(7 * HOUR)
    web_push.services[RefusalDialect.GOOGLE].bring_online(browser)
    assert web_push.phone(browser).alert_count == 0


@every_service
def test_browser_without_permission_is_dropped(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    browser = web_push.browser(dialect)
    browser.is_revoked = True
    assert isinstance(web_push.send(device(browser))[0], DropDevice)


def test_unknown_subscription_is_dropped(web_push: WebPushSetup) -> None:
    subscription = web_push.browser().subscription
    nowhere = replace(subscription, endpoint="https://fcm.googleapis.com/wp/nobody")
    assert isinstance(web_push.send(replace(device(web_push.browser()), address=nowhere))[0], DropDevice)


@every_service
def test_key_that_fits_no_subscription_is_a_config_error(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    browser = web_push.browser(dialect)
    web_push.sender = replace(web_push.sender, vapid=vapid(number=8))
    [receipt] = web_push.send(device(browser))
    assert isinstance(receipt, ConfigError)
    assert browser.endpoint not in receipt.reason
    assert on_screen(web_push, browser) == []


@every_service
def test_clock_two_hours_off_does_not_stop_alerts(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    browsers = [web_push.browser(dialect), web_push.browser(dialect)]
    slow, fast = (replace(web_push.sender, clock=WebPushSetup().clock) for _ in range(2))
    for sender, offset, browser in ((slow, -2 * HOUR, browsers[0]), (fast, 2 * HOUR, browsers[1])):
        sender.clock.advance(offset)  # type: ignore[attr-defined]  # a ManualClock
        assert [receipt for _, receipt in sender.send(ALERT, [device(browser)])] == [Accepted()]


def test_clock_days_off_is_a_config_error(web_push: WebPushSetup) -> None:
    browser = web_push.browser()
    sender = replace(web_push.sender, clock=WebPushSetup().clock)
    sender.clock.advance(timedelta(days=-3))  # type: ignore[attr-defined]  # a ManualClock
    assert [type(receipt) for _, receipt in sender.send(ALERT, [device(browser)])] == [ConfigError]


@every_service
def test_rate_limited_browser_is_retried_at_the_stated_time(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    web_push.script(ProviderScript(limited=FaultWindow(duration=10 * MINUTE)), dialect)
    receipts = web_push.send(device(web_push.browser(dialect)), device(web_push.browser(RefusalDialect.APPLE), 2))
    assert isinstance(receipts[0], RetryAt)
    assert receipts[0].at == NOON + 10 * MINUTE
    if dialect is not RefusalDialect.APPLE:
        assert receipts[1] == Accepted()
    web_push.clock.advance(10 * MINUTE)
    assert web_push.send(device(web_push.browser(dialect))) == [Accepted()]


@every_service
def test_retries_after_503_are_spread(web_push: WebPushSetup, dialect: RefusalDialect) -> None:
    web_push.script(ProviderScript(down=FaultWindow(duration=HOUR)), dialect)
    random_numbers = iter([0.0, 0.999])
    web_push.sender = replace(web_push.sender, random=lambda: next(random_numbers))
    receipts = web_push.send(device(web_push.browser(dialect)), device(web_push.browser(dialect), 2))
    assert [receipt.at for receipt in receipts if isinstance(receipt, RetryAt)] == [
        NOON + 10 * SECOND,
        NOON + 19.99 * SECOND,
    ]


def test_too_large_body_is_a_payload_error(web_push: WebPushSetup) -> None:
    web_push.services[RefusalDialect.GOOGLE].max_body_bytes = 100
    assert isinstance(web_push.send(device(web_push.browser()))[0], PayloadError)


def test_redirect_to_private_address_is_not_followed(web_push: WebPushSetup) -> None:
    web_push.services[RefusalDialect.GOOGLE].redirect = "https://10.0.0.1/latest/meta-data/"
    [receipt] = web_push.send(device(web_push.browser()))
    assert isinstance(receipt, RetryAt)
    assert "are not followed" in receipt.reason
    assert len(web_push.posts) == 1


def test_missing_response_is_unknown_and_retry_replaces_alert(web_push: WebPushSetup) -> None:
    browser = web_push.browser()

    def deliver_without_answer(post: Post) -> NoReply:
        web_push.answer(post)
        return NoReply(reason="no response in time", may_have_arrived=True)

    web_push.wire.override = deliver_without_answer
    assert web_push.send(device(browser)) == [Unknown(reason="no response in time")]
    web_push.wire.override = lambda _: None
    assert web_push.send(device(browser)) == [Accepted()]
    assert on_screen(web_push, browser) == ["ada mentioned @nova"]


def test_unsent_message_is_retried(web_push: WebPushSetup) -> None:
    web_push.wire.override = lambda _: NoReply(reason="cut", may_have_arrived=False)
    assert web_push.send(device(web_push.browser())) == [RetryAt(at=NOON + 15 * SECOND, reason="cut")]


def test_subscription_with_foreign_key_is_dropped_if_ours_is_good(web_push: WebPushSetup) -> None:
    matching, foreign = web_push.browser(), web_push.browser(key=vapid(number=8).public_key)
    receipts = web_push.send(device(matching), device(foreign, 2))
    assert receipts == [Accepted(), DropDevice(reason="OtherKey")]


def test_device_of_another_platform_raises_type_error(web_push: WebPushSetup) -> None:
    phone = replace(device(web_push.browser()), address=AppleToken(token="00", topic="app"))
    with pytest.raises(TypeError, match="not a browser device"):
        web_push.send(phone)


def test_no_devices_means_no_request(web_push: WebPushSetup) -> None:
    assert web_push.send() == []
    assert web_push.posts == []


def test_devices_are_read_lazily(web_push: WebPushSetup) -> None:
    read: list[Device] = []

    def devices() -> Iterator[Device]:
        for number in range(5):
            read.append(device(web_push.browser(), number))
            yield read[-1]

    receipts = iter(web_push.sender.send(ALERT, devices()))
    for number in range(1, 6):
        next(receipts)
        assert len(read) == number


def test_sender_implements_provider(web_push: WebPushSetup) -> None:
    provider: Provider = web_push.sender
    assert list(provider.send(ALERT, [])) == []


@given(st.text(max_size=300), st.sampled_from([*PHRASES_BY_LANGUAGE, "", "xx", "de-AT", "zh-Hant-TW", "EN_us"]))
@settings(max_examples=60)
def test_any_name_is_shown_as_written_in_any_language(opener: str, locale: str) -> None:
    web_push = WebPushSetup()
    browser = web_push.browser()
    message = replace(ALERT, content=MentionAlert(opener=UserId(opener)))
    assert web_push.send(device(browser, locale=locale), alert=message) == [Accepted()]
    [title] = on_screen(web_push, browser)
    text = message.text_in(locale).encode("utf-8", "replace").decode()
    assert title == text or (title.endswith("…") and text.startswith(title.removesuffix("…").rstrip()))
