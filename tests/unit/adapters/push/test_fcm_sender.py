"""FCM sender: requests, access tokens and reported errors."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import count, islice
from typing import Any

import pytest

from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, burst_alert, summary_alert
from notifier.domain.push.device import AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt
from notifier.ports.push import NoReply, Post, Reply
from tests.support.apns_and_fcm_senders import ALERT, Google, android, device, google, installation, sent
from tests.support.domain_examples import NOON, burst

HOURS, MINUTES = timedelta(hours=1), timedelta(minutes=1)


def posted(alert_: Alert = ALERT, target: Device | None = None) -> Post:
    fcm = google()
    sent(fcm.sender, alert_, target or android())
    [post] = fcm.wire.pushes
    return post


def message_of(post: Post) -> Any:
    return json.loads(post.body)["message"]


def token_requests(fcm: Google) -> list[Post]:
    """Return the requests to the token endpoint."""
    return [post for post in fcm.wire.sent if post not in fcm.wire.pushes]


def test_request_has_all_required_fields() -> None:
    post = posted()
    assert (post.origin, post.path) == ("https://fcm.googleapis.com:443", "/v1/projects/made-up/messages:send")
    assert dict(post.headers)["content-type"] == "application/json"
    assert message_of(post) == {
        "token": f"install{1:08}:APA91b{'x' * 60}",
        "notification": {"body": "ada mentioned @nova"},
        "android": {"priority": "HIGH", "ttl": "21600s", "notification": {"tag": ALERT.collapse_id}},
    }


def test_installation_is_sent_as_fid() -> None:
    message = message_of(posted(target=installation(7)))
    assert message["fid"] == f"c{7:021}"
    assert "token" not in message


def test_only_summaries_have_one_of_four_collapse_keys() -> None:
    subjects = [replace(burst(), key=BurstKey(Subject(Kind.MENTION, UserId(f"star{n}")), 1)) for n in range(100)]
    keys = {message_of(posted(summary_alert(subject, 3)))["android"]["collapse_key"] for subject in subjects}
    assert keys == {"away-0", "away-1", "away-2", "away-3"}
    assert message_of(posted(summary_alert(burst(), 3)))["android"]["priority"] == "NORMAL"
    assert "collapse_key" not in message_of(posted(burst_alert(subjects[0])))["android"]


@pytest.mark.parametrize(("remaining", "ttl"), [(90 * MINUTES, "5400s"), (timedelta(), "0s"), (-HOURS, "0s")])
def test_ttl_is_the_remaining_life_of_the_alert(remaining: timedelta, ttl: str) -> None:
    assert message_of(posted(replace(ALERT, expires_at=NOON + remaining)))["android"]["ttl"] == ttl


@pytest.mark.parametrize("token", ['"},"topic":"all","x":{"', "\\", "é\u2028", "\ud800", "a\r\nb"])
def test_token_cannot_inject_json_into_the_message(token: str) -> None:
    for address in (FirebaseToken(token=token), FirebaseInstallation(fid=token)):
        message = message_of(posted(target=device(address)))
        assert token in (message.get("token"), message.get("fid"))
        assert message.keys() <= {"token", "fid", "notification", "android"}


@pytest.mark.parametrize("unit", ["中", "👨‍👩‍👧‍👦", '"\\', "é"])
def test_long_text_is_cut_at_a_character_with_an_ellipsis(unit: str) -> None:
    name = unit * 5_000
    post = posted(replace(ALERT, content=MentionAlert(opener=UserId(name))))
    shown = message_of(post)["notification"]["body"]
    assert 4_000 < len(post.body) - len(json.dumps({"token": message_of(post)["token"]})) <= 4_096
    assert shown[-1] == "…"
    assert shown[:-1] == name[: len(shown) - 1]
    assert unit[0] != "👨" or (len(shown) - 1) % len(unit) == 0


def test_device_of_another_provider_raises_type_error() -> None:
    with pytest.raises(TypeError, match="AppleToken"):
        sent(google().sender, ALERT, device(AppleToken(token="ab", topic="t")))


def test_one_access_token_is_used_for_half_an_hour() -> None:
    fcm = google()
    for _ in range(3):
        assert sent(fcm.sender, ALERT, android(1), android(2)) == [Accepted()] * 2
        fcm.advance(14 * MINUTES)
    assert len(token_requests(fcm)) == 1
    [first] = {dict(post.headers)["authorization"] for post in fcm.wire.pushes}
    assert first.startswith("Bearer ya29.")


def test_next_token_is_requested_while_old_one_is_used() -> None:
    fcm = google()
    sent(fcm.sender, ALERT, android(1))
    fcm.advance(31 * MINUTES)
    sent(fcm.sender, ALERT, android(1), android(2))
    kinds = ["token" if post in token_requests(fcm) else "message" for post in fcm.wire.sent]
    assert kinds == ["token", "message", "token", "message", "message"]
    sent(fcm.sender, ALERT, android(1))
    assert len(token_requests(fcm)) == 2
    bearers = [dict(post.headers)["authorization"] for post in fcm.wire.pushes]
    assert bearers[0] != bearers[-1]


def test_message_written_before_the_next_token_uses_the_old_one() -> None:
    """The transport takes messages ahead, so the token response arrives after them."""
    fcm = google()
    sent(fcm.sender, ALERT, android(1))
    fcm.advance(31 * MINUTES)
    fcm.wire.override = lambda post: (
        NoReply(reason="cut", may_have_arrived=True) if post in token_requests(fcm) else None
    )
    assert sent(fcm.sender, ALERT, android(1), android(2)) == [Accepted()] * 2


def test_failed_token_request_is_repeated_once_a_minute() -> None:
    fcm = google()
    sent(fcm.sender, ALERT, android(1))
    fcm.wire.override = lambda post: Reply(status=500) if post in token_requests(fcm) else None
    fcm.advance(31 * MINUTES)
    for _ in range(6):
        assert sent(fcm.sender, ALERT, android(1)) == [Accepted()]
        fcm.advance(timedelta(seconds=20))
    assert len(token_requests(fcm)) == 3


def test_expired_token_is_never_used_after_a_pause() -> None:
    fcm = google()
    sent(fcm.sender, ALERT, android(1))
    fcm.advance(2 * HOURS)
    assert sent(fcm.sender, ALERT, android(1)) == [Accepted()]
    assert fcm.fake.response_counts == {"Accepted": 2}


def test_revoked_token_is_replaced_and_message_resent() -> None:
    fcm = google()
    sent(fcm.sender, ALERT, android(1))
    fcm.fake.token_endpoint.revoke()
    assert sent(fcm.sender, ALERT, android(1), android(2), android(3)) == [Accepted()] * 3
    assert fcm.fake.response_counts == {"Accepted": 4, "UNAUTHENTICATED": 1}
    assert len(token_requests(fcm)) == 2


def test_second_refused_token_is_a_config_error() -> None:
    fcm = google()
    fcm.wire.override = lambda post: None if post in token_requests(fcm) else Reply(status=401)
    for receipt in sent(fcm.sender, ALERT, android(1), android(2)):
        assert isinstance(receipt, ConfigError)
    assert len(fcm.wire.pushes) == 3


@pytest.mark.parametrize(
    "answer",
    [
        Reply(status=503),
        Reply(status=429),
        NoReply(reason="no way", may_have_arrived=False),
        NoReply(reason="cut", may_have_arrived=True),
    ],
    ids=repr,
)
def test_all_devices_are_deferred_without_a_token(answer: Reply | NoReply) -> None:
    fcm = google()
    fcm.wire.override = lambda _: answer
    receipts = sent(fcm.sender, ALERT, *(android(n) for n in range(50)))
    assert {type(receipt) for receipt in receipts} == {RetryAt}
    sent(fcm.sender, ALERT, android(1))
    assert fcm.wire.pushes == []
    assert len(token_requests(fcm)) == 1
    fcm.wire.override = lambda _: None
    fcm.advance(timedelta(seconds=20))
    assert sent(fcm.sender, ALERT, android(1)) == [Accepted()]


def test_devices_are_read_lazily_without_a_token() -> None:
    fcm = google()
    fcm.wire.override = lambda _: Reply(status=503)
    receipts = fcm.sender.send(ALERT, (android(n) for n in count()))
    assert [type(receipt) for _, receipt in islice(receipts, 3)] == [RetryAt] * 3


def test_token_request_honors_retry_after() -> None:
    fcm = google()
    fcm.wire.override = lambda _: Reply(status=503, headers={"retry-after": "120"})
    assert sent(fcm.sender, ALERT, android(1)) == [RetryAt(at=NOON + 2 * MINUTES, reason="no access token: status 503")]


def test_refused_token_reason_contains_no_account_name() -> None:
    fcm = google()
    description = "Invalid grant: account not found, sender@project.example"
    body = json.dumps({"error": "invalid_grant", "error_description": description}).encode()
    fcm.wire.override = lambda _: Reply(status=400, body=body)
    [receipt] = sent(fcm.sender, ALERT, android(1))
    assert receipt == ConfigError(
        reason="invalid_grant: account not found: the service account or its key is gone, "
        "or this machine's clock is wrong."
    )


@pytest.mark.parametrize("hours", [-2, 2])
def test_wrong_clock_is_named_as_a_possible_cause(hours: int) -> None:
    fcm = google(ahead=hours * HOURS)
    [receipt] = sent(fcm.sender, ALERT, android(1))
    assert receipt == ConfigError(
        reason="invalid_grant: short-lived token: the service account or its key is gone, "
        "or this machine's clock is wrong."
    )
    assert fcm.wire.pushes == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"access_token":"t"}',
        b'{"access_token":"a\\r\\nb","expires_in":3599}',
        b'{"access_token":7,"expires_in":3599}',
        b'{"access_token":"t","expires_in":-1}',
        b'{"access_token":"t","expires_in":"x"}',
        b'{"access_token":"t","expires_in":1e999}',
    ],
)
def test_invalid_token_response_is_a_config_error(body: bytes) -> None:
    fcm = google()
    fcm.wire.override = lambda _: Reply(status=200, body=body)
    [receipt] = sent(fcm.sender, ALERT, android(1))
    assert isinstance(receipt, ConfigError)
    assert fcm.wire.pushes == []
