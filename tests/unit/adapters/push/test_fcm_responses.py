"""Each FCM response is translated into a receipt."""

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.adapters.push.fcm.responses import receipt_of
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.domain_examples import NOON

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
Detail = Mapping[str, object]


def fcm_error(code: str) -> Detail:
    return {"@type": FCM_ERROR, "errorCode": code}


def fields(*names: str) -> Detail:
    return {"@type": BAD_REQUEST, "fieldViolations": [{"field": name, "description": "wrong"} for name in names]}


def receipt_for(status: int, code: str, *details: Detail, message: str = "no", retry_after: str = "") -> Receipt:
    error = {"code": status, "status": code, "message": message, "details": details}
    headers = {"retry-after": retry_after} if retry_after else {}
    return receipt_of(Reply(status=status, headers=headers, body=json.dumps({"error": error}).encode()), NOON, 0.5)


def test_status_200_is_accepted() -> None:
    assert receipt_of(Reply(status=200, body=b'{"name":"projects/p/messages/1"}'), NOON, 0.0) == Accepted()


def test_unregistered_drops_the_token() -> None:
    assert receipt_for(404, "NOT_FOUND", fcm_error("UNREGISTERED")) == DropDevice(reason="UNREGISTERED")


def test_token_of_another_project_is_dropped_with_an_explanation() -> None:
    assert receipt_for(403, "PERMISSION_DENIED", fcm_error("SENDER_ID_MISMATCH")) == DropDevice(
        reason="SENDER_ID_MISMATCH: the token belongs to another project; "
        "if many do, the service account is the wrong one."
    )


@pytest.mark.parametrize(
    ("status", "code", "details"),
    [
        (401, "UNAUTHENTICATED", []),
        (401, "UNAUTHENTICATED", [fcm_error("THIRD_PARTY_AUTH_ERROR")]),
        (403, "PERMISSION_DENIED", []),
        (
            403,
            "PERMISSION_DENIED",
            [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}],
        ),
        (404, "NOT_FOUND", []),
    ],
)
def test_sender_fault_is_a_config_error(status: int, code: str, details: list[Detail]) -> None:
    receipt = receipt_for(status, code, *details)
    assert isinstance(receipt, ConfigError)
    assert receipt.reason.startswith(str(details[0].get("errorCode", code)) if details else code)


def test_third_party_auth_error_affects_part_of_the_devices() -> None:
    """A project without an APNs key can still send to Android."""
    third_party = receipt_for(401, "UNAUTHENTICATED", fcm_error("THIRD_PARTY_AUTH_ERROR"))
    sender = receipt_for(401, "UNAUTHENTICATED")
    assert isinstance(third_party, ConfigError)
    assert isinstance(sender, ConfigError)
    assert (third_party.device_group, sender.device_group) == ("third-party", "")


INVALID = fcm_error("INVALID_ARGUMENT")
NO_TOKEN = "The registration token is not a valid FCM registration token"


@pytest.mark.parametrize(
    ("details", "message", "dropped"),
    [
        ([fields("message.token")], "Invalid registration token", True),
        ([fields("message.fid")], "no", True),
        ([INVALID, fields("message.token")], "Request contains an invalid argument.", True),
        ([INVALID], NO_TOKEN, True),
        ([INVALID], "Android message is too big", False),
        ([INVALID], "Request contains an invalid argument.", False),
        ([fields("message.android.ttl")], "Invalid ttl", False),
        ([fields("message")], NO_TOKEN, False),
        ([fields("message.token", "message.android.ttl")], "two are wrong", False),
        ([fields()], "no", False),
        ([], "", False),
    ],
)
def test_invalid_argument_drops_token_only_if_token_is_invalid(
    details: list[Detail], message: str, dropped: bool
) -> None:
    assert isinstance(
        receipt_for(400, "INVALID_ARGUMENT", *details, message=message), DropDevice if dropped else PayloadError
    )


@pytest.mark.parametrize(
    ("details", "message", "reason"),
    [
        ([INVALID], "Android message is too big", "INVALID_ARGUMENT: too big"),
        ([INVALID], "Request contains an invalid argument.", "INVALID_ARGUMENT"),
        ([fields("message.android.ttl")], "Invalid value: 1d", "INVALID_ARGUMENT: message.android.ttl"),
        ([], 'Invalid JSON payload received. Unknown name "x"', "INVALID_ARGUMENT: unknown name, invalid json"),
    ],
)
def test_payload_error_names_the_invalid_field(details: list[Detail], message: str, reason: str) -> None:
    assert receipt_for(400, "INVALID_ARGUMENT", *details, message=message) == PayloadError(reason=reason)


def test_receipt_contains_no_token_or_alert_text() -> None:
    token = "eXampleInstall:APA91bSecret"
    receipt = receipt_for(
        400,
        "INVALID_ARGUMENT",
        fields(token, f"message.{token}", "ada mentioned @nova"),
        {"@type": BAD_REQUEST, "fieldViolations": [{"field": ["message"], "description": token}]},
        message=f"Invalid value at 'message.notification.body', \"ada mentioned @nova\", for {token}",
    )
    assert receipt == PayloadError(reason="INVALID_ARGUMENT")


def quota(*violations: Mapping[str, object]) -> Detail:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


@pytest.mark.parametrize(
    ("details", "is_device_only"),
    [
        ([quota({"subject": "device:x", "description": "Device message rate exceeded"})], True),
        ([quota({"subject": "", "description": "Quota of messages to one device is exceeded"})], True),
        ([quota({"subject": "project:1", "description": "Message rate exceeded"})], False),
        ([quota({"subject": "device:x"}, {"subject": "project:1"})], False),
        ([quota()], False),
        ([quota({"subject": 7, "description": None})], False),
        ([], False),
    ],
)
def test_quota_is_per_project_unless_a_device_is_named(details: list[Detail], is_device_only: bool) -> None:
    receipt = receipt_for(429, "RESOURCE_EXHAUSTED", fcm_error("QUOTA_EXCEEDED"), *details)
    assert receipt == RetryAt(at=NOON + timedelta(minutes=1), reason="QUOTA_EXCEEDED", is_device_only=is_device_only)


@pytest.mark.parametrize(("retry_after", "seconds"), [("", 60), ("600", 600), ("0", 0), ("soon", 60)])
def test_exceeded_quota_is_retried_after_its_delay(retry_after: str, seconds: int) -> None:
    receipt = receipt_for(429, "RESOURCE_EXHAUSTED", fcm_error("QUOTA_EXCEEDED"), retry_after=retry_after)
    assert receipt == RetryAt(at=NOON + timedelta(seconds=seconds), reason="QUOTA_EXCEEDED")


@pytest.mark.parametrize(("status", "code"), [(500, "INTERNAL"), (503, "UNAVAILABLE")])
def test_server_errors_are_retried(status: int, code: str) -> None:
    assert receipt_for(status, code, fcm_error(code)) == RetryAt(at=NOON + timedelta(seconds=15), reason=code)
    assert receipt_for(status, code, fcm_error(code), retry_after="7") == RetryAt(
        at=NOON + timedelta(seconds=7), reason=code
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, ConfigError),
        (400, PayloadError),
        (401, ConfigError),
        (403, ConfigError),
        (404, ConfigError),
        (405, ConfigError),
        (413, PayloadError),
        (429, RetryAt),
        (500, RetryAt),
        (504, RetryAt),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>404</html>", b'{"error":"x"}', b'{"error":{"details":[null]}}'])
def test_status_decides_without_details_and_drops_no_token(status: int, kind: type, body: bytes) -> None:
    assert isinstance(receipt_of(Reply(status=status, body=body), NOON, 0.0), kind)
