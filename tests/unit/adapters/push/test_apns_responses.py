"""Each APNs response is translated into a receipt."""

from datetime import datetime, timedelta

import pytest

from notifier.adapters.push.apns.responses import CONFIGURATION_ERRORS, receipt_of
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.domain_examples import NOON

SOON = NOON + timedelta(seconds=15)
"""Retry time for a random number of 0.5."""


def receipt_for(status: int, reason: str = "", **headers: str) -> Receipt:
    body = b'{"reason":"%s"}' % reason.encode() if reason else b""
    return receipt_of(Reply(status=status, headers=headers, body=body), NOON, 0.5)


def test_status_200_is_accepted() -> None:
    assert receipt_for(200) == Accepted()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"), (410, "Unregistered"), (410, "ExpiredToken")],
)
def test_missing_device_drops_the_token(status: int, reason: str) -> None:
    assert receipt_for(status, reason) == DropDevice(reason=reason)


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
def test_sender_fault_is_a_config_error(status: int, reason: str) -> None:
    assert receipt_for(status, reason) == ConfigError(reason=f"{reason}: {CONFIGURATION_ERRORS[reason]}")


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
def test_request_fault_is_a_payload_error(status: int, reason: str) -> None:
    assert receipt_for(status, reason) == PayloadError(reason=reason)


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
def test_temporary_failure_is_retried(status: int, reason: str) -> None:
    is_device_only = reason == "TooManyRequests"
    assert receipt_for(status, reason) == RetryAt(at=SOON, reason=reason, is_device_only=is_device_only)
    receipt = receipt_of(
        Reply(status=status, headers={"retry-after": "90"}, body=b'{"reason":"%s"}' % reason.encode()), NOON, 0.5
    )
    assert receipt == RetryAt(at=NOON + timedelta(seconds=90), reason=reason, is_device_only=is_device_only)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, PayloadError),
        (403, ConfigError),
        (404, PayloadError),
        (405, ConfigError),
        (410, DropDevice),
        (413, PayloadError),
        (429, RetryAt),
        (500, RetryAt),
        (502, RetryAt),
        (302, ConfigError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"reason":"SomethingNew"}', b'{"reason":null}'])
def test_status_decides_without_a_known_reason(status: int, kind: type[Receipt], body: bytes) -> None:
    assert isinstance(receipt_of(Reply(status=status, body=body), NOON, 0.0), kind)


@pytest.mark.parametrize(
    ("timestamp", "at"),
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
def test_timestamp_of_unregistered_is_read_and_never_in_the_future(timestamp: bytes, at: datetime | None) -> None:
    body = b'{"reason":"Unregistered","timestamp":%s}' % timestamp
    assert receipt_of(Reply(status=410, body=body), NOON, 0.0) == DropDevice(at=at, reason="Unregistered")


def test_unknown_reason_is_not_copied_into_the_receipt() -> None:
    hostile = Reply(status=400, body=b'{"reason":"\\u001b[31m' + b"x" * 5_000 + b'"}')
    assert receipt_of(hostile, NOON, 0.0) == PayloadError(reason="status 400")
