"""Each Web Push response is translated into a receipt for one browser or for all."""

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push.webpush.responses import receipt_of
from notifier.adapters.push.webpush.vapid import MAX_ACCEPTING_ORIGINS, KeyReputation
from notifier.domain.push.device import MAX_DEVICES
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.domain_examples import NOON, SECOND

GOOGLE, APPLE = "https://fcm.googleapis.com:443", "https://web.push.apple.com:443"
MISMATCH = (
    b"the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    b"subscriptions.\n"
)
UNAUTHORIZED = b"<HTML><TITLE>UnauthorizedRegistration</TITLE></HTML>"


def reason(name: str) -> bytes:
    return json.dumps({"reason": name}).encode()


def errno(number: object) -> bytes:
    return json.dumps({"code": 400, "errno": number, "error": "x", "message": "y"}).encode()


def receipt_for(
    status: int, body: bytes = b"", *, reputation: KeyReputation | None = None, origin: str = GOOGLE, **headers: str
) -> Receipt:
    reply = Reply(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)
    return receipt_of(reply, origin, reputation if reputation is not None else proven(), NOON, 0.5)


def proven() -> KeyReputation:
    """Return the reputation of a key that Google has accepted."""
    reputation = KeyReputation()
    reputation.record_acceptance(GOOGLE)
    return reputation


SOON = NOON + 15 * SECOND


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_success_is_accepted(status: int) -> None:
    assert receipt_for(status) == Accepted()


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (404, b"", "status 404"),
        (404, errno(102), "errno 102"),
        (410, b"", "status 410"),
        (410, reason("Unregistered"), "status 410"),
        (410, errno(103), "errno 103"),
        (410, errno(106), "errno 106"),
        (301, b"", "status 301: redirects are not followed"),
        (308, b"", "status 308: redirects are not followed"),
        (403, MISMATCH, "OtherKey"),
        (403, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
        (400, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
    ],
)
def test_unusable_subscription_is_dropped(status: int, body: bytes, cause: str) -> None:
    assert receipt_for(status, body) == DropDevice(reason=cause)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, b""),
        (429, errno(201)),
        (406, b""),
        (408, b""),
        (421, b""),
        (425, b""),
        (500, errno(999)),
        (502, errno(902)),
        (503, errno(201)),
        (503, errno(202)),
        (599, b""),
        (300, b""),
        (302, b""),
        (303, b""),
        (304, b""),
        (307, b""),
        (401, b""),
        (403, b""),
        (401, errno(109)),
        (403, reason("InvalidProviderToken")),
        (400, UNAUTHORIZED),
    ],
)
def test_failure_that_may_pass_is_retried(status: int, body: bytes) -> None:
    receipt = receipt_for(status, body)
    assert isinstance(receipt, RetryAt)
    assert receipt.at == SOON


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, b""),
        (413, errno(104)),
        (413, reason("PayloadTooLarge")),
        (400, b""),
        (400, errno(110)),
        (400, errno(113)),
        (400, reason("BadWebPushTopic")),
        (400, reason("BadTtl")),
        (405, b""),
        (411, b""),
        (415, b""),
        (431, b""),
        (199, b""),
    ],
)
def test_request_fault_is_a_payload_error(status: int, body: bytes) -> None:
    assert isinstance(receipt_for(status, body), PayloadError)


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (403, reason("BadJwtToken"), "BadJwtToken"),
        (403, reason("BadVapidPublicKey"), "BadVapidPublicKey"),
        (403, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
        (400, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
        (401, errno(109), "errno 109"),
        (403, MISMATCH, "OtherKey"),
        (403, b"invalid JWT provided\n", "InvalidJwt"),
        (400, UNAUTHORIZED, "UnauthorizedRegistration"),
    ],
)
def test_refused_key_that_was_never_accepted_is_a_config_error(status: int, body: bytes, cause: str) -> None:
    receipt = receipt_for(status, body, reputation=proven(), origin=APPLE)
    assert isinstance(receipt, ConfigError)
    assert receipt.reason.startswith(f"{cause}: {APPLE} rejects the sender")


@pytest.mark.parametrize("body", [reason("BadJwtToken"), reason("BadVapidPublicKey"), b"invalid JWT provided\n"])
def test_refused_token_is_a_config_error_at_once(body: bytes) -> None:
    assert isinstance(receipt_for(403, body, reputation=proven()), ConfigError)


@pytest.mark.parametrize("body", [MISMATCH, errno(109), UNAUTHORIZED, b""])
def test_subscriptions_with_foreign_keys_keep_our_reputation(body: bytes) -> None:
    """A user can register such a subscription on every device; alerts of all other users go on."""
    reputation = proven()
    for _ in range(MAX_DEVICES):
        assert not isinstance(receipt_for(403, body, reputation=reputation), ConfigError)
    assert receipt_for(201, reputation=reputation) == Accepted()
    assert not isinstance(receipt_for(403, body, reputation=reputation), ConfigError)


@pytest.mark.parametrize("body", [MISMATCH, errno(109), UNAUTHORIZED, b""])
def test_many_consecutive_refusals_are_a_config_error(body: bytes) -> None:
    """After a clock jump or a revoked key, only the first few subscriptions are dropped."""
    reputation = proven()
    receipts = [receipt_for(403, body, reputation=reputation) for _ in range(3 * MAX_DEVICES)]
    assert not any(isinstance(receipt, ConfigError) for receipt in receipts[:MAX_DEVICES])
    assert all(isinstance(receipt, ConfigError) for receipt in receipts[MAX_DEVICES:])


def test_unexplained_refusal_of_unproven_key_is_retried() -> None:
    """Any user can register an address of the push service that answers like this for other reasons."""
    assert isinstance(receipt_for(401, reputation=KeyReputation(), origin=APPLE), RetryAt)


def test_reputation_memory_is_bounded() -> None:
    reputation = KeyReputation()
    for number in range(2 * MAX_ACCEPTING_ORIGINS):
        reputation.record_acceptance(f"https://x{number}.notify.windows.com:443")
    assert len(reputation.accepting_origins) == MAX_ACCEPTING_ORIGINS


@pytest.mark.parametrize(
    ("receipt", "is_device_only"),
    [
        (receipt_for(406, x_wns_notificationstatus="channelThrottled"), True),
        (receipt_for(406, x_wns_notificationstatus="dropped"), False),
        (receipt_for(429), False),
        (receipt_for(503), False),
        (receipt_for(302), False),
        (receipt_for(401), True),
        (receipt_for(400, UNAUTHORIZED), True),
    ],
)
def test_receipt_tells_if_only_one_browser_is_affected(receipt: Receipt, is_device_only: bool) -> None:
    assert isinstance(receipt, RetryAt)
    assert receipt.is_device_only is is_device_only


@pytest.mark.parametrize("status", [429, 503, 500, 302])
@pytest.mark.parametrize(
    ("header", "at"),
    [
        ("0", NOON),
        ("120", NOON + timedelta(minutes=2)),
        ("600", NOON + timedelta(minutes=10)),
        ("Mon, 05 Jan 2026 12:05:00 GMT", NOON + timedelta(minutes=5)),
        ("Mon, 05 Jan 2026 11:00:00 GMT", NOON),
        ("99999999999999999999", NOON + timedelta(days=1)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", NOON + timedelta(days=1)),
        ("", SOON),
        ("-1", SOON),
        ("1.5", SOON),
        ("soon", SOON),
        ("٣", SOON),
    ],
)
def test_retry_after_is_honored_within_a_day(status: int, header: str, at: datetime) -> None:
    receipt = receipt_for(status, retry_after=header)
    assert isinstance(receipt, RetryAt)
    assert receipt.at == at


@given(st.integers(100, 599), st.binary(max_size=200), st.text(max_size=40))
def test_any_response_has_a_receipt_without_its_content(status: int, body: bytes, retry_after: str) -> None:
    receipt = receipt_for(status, body + b"https://secret.example/path", retry_after=retry_after)
    assert "secret" not in repr(receipt)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"errno": ' + b"9" * 5000 + b"}", b"\xff" * 5000, errno(True), errno("109")]
)
def test_malicious_body_is_ignored(body: bytes) -> None:
    assert receipt_for(410, body) == DropDevice(reason="status 410")
