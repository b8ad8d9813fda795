"""What each of Apple's answers means."""

from datetime import datetime, timedelta

import pytest

from notifier.adapters.push.apns.responses import CONFIGURES, receipt_of
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.examples import NOON

SOON = NOON + timedelta(seconds=15)
"""With an even chance."""


def read(status: int, reason: str = "", **more: str) -> Receipt:
    body = b'{"reason":"%s"}' % reason.encode() if reason else b""
    return receipt_of(Reply(status=status, headers=more, body=body), NOON, 0.5)


def test_accepted() -> None:
    assert read(200) == Accepted()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"), (410, "Unregistered"), (410, "ExpiredToken")],
)
def test_nobody_is_there(status: int, reason: str) -> None:
    assert read(status, reason) == DropToken(reason=reason)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "ExpiredProviderToken"),
        (403, "InvalidProviderToken"),
        (403, "MissingProviderToken"),
        (403, "BadCertificate"),
        (403, "BadCertificateEnvironment"),
        (403, "Forbidden"),
        (403, "BadEnvironmentKeyIdInToken"),
        (403, "BadEnvironmentKeyInToken"),
        (403, "UnrelatedKeyIdInToken"),
        (400, "TopicDisallowed"),
        (429, "TooManyProviderTokenUpdates"),
    ],
)
def test_who_sends_is_at_fault(status: int, reason: str) -> None:
    assert read(status, reason) == ConfigError(reason=f"{reason}: {CONFIGURES[reason]}")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "BadCollapseId"),
        (400, "BadExpirationDate"),
        (400, "BadMessageId"),
        (400, "BadPriority"),
        (400, "BadTopic"),
        (400, "DuplicateHeaders"),
        (400, "InvalidPushType"),
        (400, "MissingDeviceToken"),
        (400, "MissingTopic"),
        (400, "PayloadEmpty"),
        (404, "BadPath"),
        (413, "PayloadTooLarge"),
    ],
)
def test_the_letter_is_at_fault(status: int, reason: str) -> None:
    assert read(status, reason) == PayloadError(reason=reason)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "IdleTimeout"),
        (429, "TooManyRequests"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
        (503, "Shutdown"),
    ],
)
def test_another_time(status: int, reason: str) -> None:
    alone = reason == "TooManyRequests"  # to this device
    assert read(status, reason) == RetryAt(at=SOON, reason=reason, alone=alone)
    asked = receipt_of(
        Reply(status=status, headers={"retry-after": "90"}, body=b'{"reason":"%s"}' % reason.encode()), NOON, 0.5
    )
    assert asked == RetryAt(at=NOON + timedelta(seconds=90), reason=reason, alone=alone)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, PayloadError),
        (403, ConfigError),
        (404, PayloadError),
        (405, ConfigError),
        (410, DropToken),
        (413, PayloadError),
        (429, RetryAt),
        (500, RetryAt),
        (502, RetryAt),
        (302, ConfigError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"reason":"SomethingNew"}', b'{"reason":null}'])
def test_without_a_reason_that_is_known_the_status_decides(status: int, kind: type[Receipt], body: bytes) -> None:
    assert isinstance(receipt_of(Reply(status=status, body=body), NOON, 0.0), kind)


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        (b"1767600000123", datetime.fromisoformat("2026-01-05T08:00:00.123+00:00")),
        (b"1867600000123", NOON),
        (b"9999999999999999999999", None),
        (b"0", None),
        (b"-1", None),
        (b"true", None),
        (b'"1767600000123"', None),
        (b"1767600000123.5", None),
    ],
)
def test_since_when_it_is_gone_in_milliseconds_and_never_after_now(stamp: bytes, at: datetime | None) -> None:
    body = b'{"reason":"Unregistered","timestamp":%s}' % stamp
    assert receipt_of(Reply(status=410, body=body), NOON, 0.0) == DropToken(at=at, reason="Unregistered")


def test_what_is_no_word_of_apple_s_gets_into_no_record() -> None:
    hostile = Reply(status=400, body=b'{"reason":"\\u001b[31m' + b"x" * 5_000 + b'"}')
    assert receipt_of(hostile, NOON, 0.0) == PayloadError(reason="status 400")
