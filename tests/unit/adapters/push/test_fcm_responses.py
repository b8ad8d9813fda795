"""What each of Google's answers means."""

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.adapters.push.fcm.responses import receipt_of
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.examples import NOON

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
Detail = Mapping[str, object]


def own(code: str) -> Detail:
    return {"@type": FCM_ERROR, "errorCode": code}


def fields(*names: str) -> Detail:
    return {"@type": BAD_REQUEST, "fieldViolations": [{"field": name, "description": "wrong"} for name in names]}


def read(status: int, code: str, *details: Detail, said: str = "no", after: str = "") -> Receipt:
    error = {"code": status, "status": code, "message": said, "details": details}
    headers = {"retry-after": after} if after else {}
    return receipt_of(Reply(status=status, headers=headers, body=json.dumps({"error": error}).encode()), NOON, 0.5)


def test_accepted() -> None:
    assert receipt_of(Reply(status=200, body=b'{"name":"projects/p/messages/1"}'), NOON, 0.0) == Accepted()


def test_nobody_is_there() -> None:
    assert read(404, "NOT_FOUND", own("UNREGISTERED")) == DropToken(reason="UNREGISTERED")


def test_another_project_s_token_is_dropped_and_says_what_many_of_them_mean() -> None:
    assert read(403, "PERMISSION_DENIED", own("SENDER_ID_MISMATCH")) == DropToken(
        reason="SENDER_ID_MISMATCH: the token is another project's; many at once mean that the service account is."
    )


@pytest.mark.parametrize(
    ("status", "code", "details"),
    [
        (401, "UNAUTHENTICATED", []),
        (401, "UNAUTHENTICATED", [own("THIRD_PARTY_AUTH_ERROR")]),
        (403, "PERMISSION_DENIED", []),
        (
            403,
            "PERMISSION_DENIED",
            [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}],
        ),
        (404, "NOT_FOUND", []),
    ],
)
def test_who_sends_is_at_fault(status: int, code: str, details: list[Detail]) -> None:
    receipt = read(status, code, *details)
    assert isinstance(receipt, ConfigError)
    assert receipt.reason.startswith(str(details[0].get("errorCode", code)) if details else code)


def test_only_the_project_s_keys_for_others_are_about_a_part_of_its_devices() -> None:
    """Who has none for Apple still sends to Android."""
    third, sends = (read(401, "UNAUTHENTICATED", *some) for some in ([own("THIRD_PARTY_AUTH_ERROR")], []))
    assert isinstance(third, ConfigError)
    assert isinstance(sends, ConfigError)
    assert (third.part, sends.part) == ("third-party", "")


INVALID = own("INVALID_ARGUMENT")
NO_TOKEN = "The registration token is not a valid FCM registration token"


@pytest.mark.parametrize(
    ("details", "said", "dropped"),
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
def test_an_invalid_argument_costs_the_token_only_where_the_token_is_what_is_invalid(
    details: list[Detail], said: str, dropped: bool
) -> None:
    assert isinstance(read(400, "INVALID_ARGUMENT", *details, said=said), DropToken if dropped else PayloadError)


@pytest.mark.parametrize(
    ("details", "said", "reason"),
    [
        ([INVALID], "Android message is too big", "INVALID_ARGUMENT: too big"),
        ([INVALID], "Request contains an invalid argument.", "INVALID_ARGUMENT"),
        ([fields("message.android.ttl")], "Invalid value: 1d", "INVALID_ARGUMENT: message.android.ttl"),
        ([], 'Invalid JSON payload received. Unknown name "x"', "INVALID_ARGUMENT: unknown name, invalid json"),
    ],
)
def test_our_mistake_is_told_by_the_field_and_the_words_that_help(
    details: list[Detail], said: str, reason: str
) -> None:
    assert read(400, "INVALID_ARGUMENT", *details, said=said) == PayloadError(reason=reason)


def test_nothing_of_google_s_words_is_kept_that_may_be_a_token_or_an_alert_s_text() -> None:
    token = "eXampleInstall:APA91bSecret"
    receipt = read(
        400,
        "INVALID_ARGUMENT",
        fields(token, f"message.{token}", "ada mentioned @nova"),
        {"@type": BAD_REQUEST, "fieldViolations": [{"field": ["message"], "description": token}]},
        said=f"Invalid value at 'message.notification.body', \"ada mentioned @nova\", for {token}",
    )
    assert receipt == PayloadError(reason="INVALID_ARGUMENT")


def quota(*violations: Mapping[str, object]) -> Detail:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


@pytest.mark.parametrize(
    ("details", "alone"),
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
def test_a_quota_is_the_project_s_unless_it_is_said_to_be_one_device_s(details: list[Detail], alone: bool) -> None:
    receipt = read(429, "RESOURCE_EXHAUSTED", own("QUOTA_EXCEEDED"), *details)
    assert receipt == RetryAt(at=NOON + timedelta(minutes=1), reason="QUOTA_EXCEEDED", alone=alone)


@pytest.mark.parametrize(("after", "seconds"), [("", 60), ("600", 600), ("0", 0), ("soon", 60)])
def test_the_quota_is_waited_for(after: str, seconds: int) -> None:
    receipt = read(429, "RESOURCE_EXHAUSTED", own("QUOTA_EXCEEDED"), after=after)
    assert receipt == RetryAt(at=NOON + timedelta(seconds=seconds), reason="QUOTA_EXCEEDED")


@pytest.mark.parametrize(("status", "code"), [(500, "INTERNAL"), (503, "UNAVAILABLE")])
def test_another_time_and_no_sooner_than_in_ten_seconds(status: int, code: str) -> None:
    assert read(status, code, own(code)) == RetryAt(at=NOON + timedelta(seconds=15), reason=code)
    assert read(status, code, own(code), after="7") == RetryAt(at=NOON + timedelta(seconds=7), reason=code)


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
def test_without_words_the_status_decides_and_no_token_is_dropped(status: int, kind: type, body: bytes) -> None:
    assert isinstance(receipt_of(Reply(status=status, body=body), NOON, 0.0), kind)
