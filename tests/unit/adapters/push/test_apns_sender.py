"""APNs sender: requests, provider tokens, quarantine and reported errors."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, burst_alert, summary_alert
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice
from notifier.ports.push import Post, Reply
from tests.support.apns_and_fcm_senders import ALERT, TOPIC, Apple, apple, device, iphone, sent
from tests.support.domain_examples import NOON, burst

HOURS = timedelta(hours=1)
EXPIRED = Reply(status=403, body=b'{"reason":"ExpiredProviderToken"}')


def posted(alert_: Alert = ALERT, target: Device | None = None) -> Post:
    apns = apple()
    sent(apns.sender, alert_, target or iphone())
    [post] = apns.wire.sent
    return post


def header(post: Post, name: str) -> str:
    [value] = [value for key, value in post.headers if key == name]
    return value


def text(post: Post) -> str:
    return str(json.loads(post.body)["aps"]["alert"]["body"])


def test_request_has_all_required_headers() -> None:
    post = posted()
    assert post.origin == "https://api.push.apple.com:443"
    assert post.path == f"/3/device/{1:064x}"
    assert {name: value for name, value in post.headers if name not in ("authorization", "apns-id")} == {
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": str(int((NOON + 6 * HOURS).timestamp())),
        "apns-topic": TOPIC,
        "apns-collapse-id": ALERT.collapse_id,
    }
    assert json.loads(post.body) == {"aps": {"alert": {"body": "ada mentioned @nova"}, "sound": "default"}}
    assert post.needs_own_connection is False


def test_summary_has_low_priority_and_no_sound() -> None:
    post = posted(summary_alert(burst(), 3))
    assert header(post, "apns-priority") == "5"
    assert json.loads(post.body) == {"aps": {"alert": {"body": "While you were away: 3 about @nova"}}}


def test_sandbox_token_is_sent_to_sandbox() -> None:
    address = AppleToken(token="ab" * 32, topic=TOPIC, environment=ApnsEnvironment.SANDBOX)
    assert posted(target=device(address)).origin == "https://api.sandbox.push.apple.com:443"


def test_apns_id_is_a_uuid_of_alert_and_device() -> None:
    ids = {
        header(posted(alert_, target), "apns-id")
        for alert_ in (ALERT, summary_alert(burst(), 2))
        for target in (iphone(1), iphone(2))
    }
    assert len(ids) == 4
    assert all(str(UUID(id_)) == id_ for id_ in ids)
    assert header(posted(), "apns-id") == header(posted(), "apns-id")


def test_summaries_with_one_collapse_id_have_different_ids() -> None:
    later_burst = replace(burst(seq=2), opened_at=NOON + HOURS)
    first, second = posted(summary_alert(burst(), 2)), posted(summary_alert(later_burst, 2))
    assert header(first, "apns-collapse-id") == header(second, "apns-collapse-id")
    assert header(first, "apns-id") != header(second, "apns-id")


FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize("unit", ["中", FAMILY, '"\\', "é", "a", "\u0301e"])
@pytest.mark.parametrize("locale", ["en", "ja", "ar"])
def test_long_text_is_cut_at_a_character_with_an_ellipsis(unit: str, locale: str) -> None:
    name = unit * 5_000
    post = posted(replace(ALERT, content=MentionAlert(opener=UserId(name))), iphone(locale=locale))
    assert 4_096 - len(FAMILY.encode()) <= len(post.body) <= 4_096
    body = text(post)
    prefix = body[body.index(unit) : -1]
    assert body[-1] == "…"
    assert prefix == name[: len(prefix)]
    assert unit != FAMILY or len(prefix) % len(FAMILY) == 0


def test_name_with_invalid_unicode_is_sent() -> None:
    assert text(posted(replace(ALERT, content=MentionAlert(opener=UserId("a\ud800b"))))) == "a?b mentioned @nova"


@pytest.mark.parametrize("token", ["", "abc", "zz" * 32, "ab" * 101, "ab/../" * 8, "ab\r\n" * 16, "é" * 64])
def test_invalid_token_is_dropped_and_never_sent(token: str) -> None:
    apns = apple()
    assert sent(apns.sender, ALERT, device(AppleToken(token=token, topic=TOPIC))) == [
        DropDevice(reason="BadDeviceToken")
    ]
    assert apns.wire.sent == []


def test_invalid_topic_is_dropped_and_never_sent() -> None:
    apns = apple()
    invalid = device(AppleToken(token="ab" * 32, topic="a\r\napns-priority: 1"))
    assert sent(apns.sender, ALERT, invalid, iphone(2)) == [DropDevice(reason="BadDeviceToken"), Accepted()]
    assert len(apns.wire.sent) == 1


def test_device_of_a_foreign_app_is_dropped_without_config_error() -> None:
    apns = apple()
    foreign = device(AppleToken(token="ab" * 32, topic="com.other"))
    assert isinstance(sent(apns.sender, ALERT, foreign)[0], ConfigError)
    restricted = replace(apns.sender, topics=frozenset({TOPIC}))
    assert sent(restricted, ALERT, foreign, iphone(2)) == [DropDevice(reason="TopicDisallowed"), Accepted()]
    assert apns.fake.response_counts == {"TopicDisallowed": 1, "Accepted": 1}


def test_device_of_another_provider_raises_type_error() -> None:
    with pytest.raises(TypeError, match="FirebaseToken"):
        sent(apple().sender, ALERT, device(FirebaseToken(token="t")))


def test_new_device_is_sent_apart_until_an_alert_is_accepted() -> None:
    apns = apple()
    recent = replace(iphone(), registered_at=NOON)
    sent(apns.sender, ALERT, recent)
    sent(apns.sender, ALERT, recent)
    assert [post.needs_own_connection for post in apns.wire.sent] == [True, False]


def test_refused_device_is_sent_apart_until_an_alert_is_accepted() -> None:
    apns = apple()
    apns.wire.override = lambda _: Reply(status=400, body=b'{"reason":"BadDeviceToken"}')
    sent(apns.sender, ALERT, iphone())
    apns.wire.override = lambda _: None
    sent(apns.sender, ALERT, iphone())
    sent(apns.sender, ALERT, iphone())
    assert [post.needs_own_connection for post in apns.wire.sent] == [False, True, False]


def test_one_provider_token_is_used_for_half_an_hour() -> None:
    apns = apple()
    for _ in range(5):
        sent(apns.sender, ALERT, iphone(1), iphone(2))
        apns.advance(timedelta(minutes=7, seconds=29))
    bearers = [header(post, "authorization") for post in apns.wire.sent]
    assert len(set(bearers)) == 1
    assert apns.fake.response_counts == {"Accepted": 10}
    apns.advance(timedelta(minutes=1))
    sent(apns.sender, ALERT, iphone())
    assert header(apns.wire.sent[-1], "authorization") not in bearers


def test_clock_45_minutes_slow_costs_one_refusal_and_no_alert() -> None:
    apns = apple(ahead=timedelta(minutes=-45))
    apns.advance(timedelta(minutes=10))
    devices = [iphone(n) for n in range(4)]
    assert sent(apns.sender, ALERT, *devices) == [Accepted()] * 4
    assert apns.fake.response_counts == {"ExpiredProviderToken": 1, "Accepted": 4}
    assert sent(apns.sender, ALERT, *devices) == [Accepted()] * 4
    assert apns.fake.response_counts["ExpiredProviderToken"] == 1


def test_requests_with_expired_token_are_resent_before_others() -> None:
    apns = apple(ahead=timedelta(minutes=-45))
    apns.advance(timedelta(minutes=10))
    apns.wire.in_flight = 5
    devices = [iphone(n) for n in range(12)]
    assert sent(apns.sender, ALERT, *devices) == [Accepted()] * 12
    assert apns.fake.response_counts == {"ExpiredProviderToken": 5, "Accepted": 12}
    assert [int(post.path[-2:], 16) for post in apns.wire.sent[:10]] == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]


def test_only_requests_refused_for_expired_token_are_resent() -> None:
    apns = apple()
    apns.advance(timedelta(minutes=10))  # within the half-hour, so that a newer token can be signed
    apns.wire.override = lambda _: EXPIRED if len(apns.wire.sent) == 2 else None
    assert sent(apns.sender, ALERT, *(iphone(n) for n in range(3))) == [Accepted()] * 3
    assert [post.path[-1] for post in apns.wire.sent] == ["0", "1", "1", "2"]


def config_error_with_clock_off_by(offset: timedelta) -> tuple[Apple, ConfigError]:
    apns = apple(ahead=offset)
    apns.advance(timedelta(minutes=10))
    first, *remaining = sent(apns.sender, ALERT, *(iphone(n) for n in range(3)))
    assert isinstance(first, ConfigError)
    assert remaining == [first, first]
    return apns, first


def test_slow_clock_is_reported_after_one_new_token() -> None:
    apns, receipt = config_error_with_clock_off_by(-2 * HOURS)
    assert receipt.reason == (
        "ExpiredProviderToken: Apple rejects even a new provider token as expired: this machine's clock is behind."
    )
    assert len(apns.wire.sent) == 4
    sent(apns.sender, ALERT, iphone())
    assert len({header(post, "authorization") for post in apns.wire.sent}) <= 2


def test_fast_clock_is_named_as_a_possible_cause() -> None:
    apns, receipt = config_error_with_clock_off_by(2 * HOURS)
    assert receipt.reason == (
        "InvalidProviderToken: key, key id and team id do not belong together, the key was revoked, or this machine's "
        "clock is ahead."
    )
    assert len(apns.wire.sent) == 3


def test_expired_alert_is_not_stored_by_apple() -> None:
    expired = replace(ALERT, expires_at=NOON)
    assert header(posted(expired), "apns-expiration") == "0"


def test_alert_about_the_recipient_addresses_them() -> None:
    own_alert = burst_alert(replace(burst(), key=BurstKey(Subject(Kind.SELF, UserId("nova")), 1)))
    assert text(posted(own_alert, iphone(locale="de"))) == "ada hat dich erwähnt"
