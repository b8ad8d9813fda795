"""Each answer of a push service has one receipt; one browser's answer is never taken for everybody's."""

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push.webpush.responses import receipt_of
from notifier.adapters.push.webpush.vapid import REPUTATION_ORIGINS as ORIGINS
from notifier.adapters.push.webpush.vapid import KeyReputation
from notifier.domain.push.device import MOST_DEVICES
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply
from tests.support.examples import NOON, SECOND

GOOGLE, APPLE = "https://fcm.googleapis.com:443", "https://web.push.apple.com:443"
MISMATCH = (
    b"the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    b"subscriptions.\n"
)
UNAUTHORIZED = b"<HTML><TITLE>UnauthorizedRegistration</TITLE></HTML>"


def reason(word: str) -> bytes:
    return json.dumps({"reason": word}).encode()


def errno(number: object) -> bytes:
    return json.dumps({"code": 400, "errno": number, "error": "x", "message": "y"}).encode()


def answered(
    status: int, body: bytes = b"", *, standing: KeyReputation | None = None, origin: str = GOOGLE, **headers: str
) -> Receipt:
    reply = Reply(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)
    return receipt_of(reply, origin, standing if standing is not None else proven(), NOON, 0.5)


def proven() -> KeyReputation:
    """Of a key that Google has taken."""
    standing = KeyReputation()
    standing.taken(GOOGLE)
    return standing


SOON = NOON + 15 * SECOND


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_taken(status: int) -> None:
    assert answered(status) == Accepted()


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b"", "status 404"),
        (404, errno(102), "errno 102"),
        (410, b"", "status 410"),
        (410, reason("Unregistered"), "status 410"),
        (410, errno(103), "errno 103"),
        (410, errno(106), "errno 106"),
        (301, b"", "status 301: a redirect, which isn't followed"),
        (308, b"", "status 308: a redirect, which isn't followed"),
        (403, MISMATCH, "OtherKey"),
        (403, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
        (400, reason("VapidPkHashMismatch"), "VapidPkHashMismatch"),
    ],
)
def test_nobody_is_there(status: int, body: bytes, why: str) -> None:
    assert answered(status, body) == DropToken(reason=why)


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
def test_later(status: int, body: bytes) -> None:
    found = answered(status, body)
    assert isinstance(found, RetryAt)
    assert found.at == SOON


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
def test_our_mistake(status: int, body: bytes) -> None:
    assert isinstance(answered(status, body), PayloadError)


@pytest.mark.parametrize(
    ("status", "body", "why"),
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
def test_who_sends_is_refused_where_its_key_was_never_taken(status: int, body: bytes, why: str) -> None:
    found = answered(status, body, standing=proven(), origin=APPLE)
    assert isinstance(found, ConfigError)
    assert found.reason.startswith(f"{why}: {APPLE} refuses who sends")


@pytest.mark.parametrize("body", [reason("BadJwtToken"), reason("BadVapidPublicKey"), b"invalid JWT provided\n"])
def test_what_no_subscription_can_bring_about_is_about_us_at_once(body: bytes) -> None:
    assert isinstance(answered(403, body, standing=proven()), ConfigError)


@pytest.mark.parametrize("body", [MISMATCH, errno(109), UNAUTHORIZED, b""])
def test_a_subscription_made_for_somebody_else_s_key_gives_ours_no_bad_name(body: bytes) -> None:
    """Anybody can register one, as many as a person has devices, and everybody else's alerts go on."""
    standing = proven()
    for _ in range(MOST_DEVICES):
        assert not isinstance(answered(403, body, standing=standing), ConfigError)
    assert answered(201, standing=standing) == Accepted()
    assert not isinstance(answered(403, body, standing=standing), ConfigError)


@pytest.mark.parametrize("body", [MISMATCH, errno(109), UNAUTHORIZED, b""])
def test_more_refusals_in_a_row_than_one_person_has_devices_are_about_us(body: bytes) -> None:
    """A clock that jumps, or a key that was taken back: no subscription is dropped for it, beside the first few."""
    standing = proven()
    found = [answered(403, body, standing=standing) for _ in range(3 * MOST_DEVICES)]
    assert not any(isinstance(one, ConfigError) for one in found[:MOST_DEVICES])
    assert all(isinstance(one, ConfigError) for one in found[MOST_DEVICES:])


def test_a_refusal_that_says_nothing_shows_nothing_where_nobody_was_taken_either() -> None:
    """An address of a push service that takes other things than subscriptions answers so, and anybody can name it."""
    assert isinstance(answered(401, standing=KeyReputation(), origin=APPLE), RetryAt)


def test_of_names_that_are_made_up_only_so_many_are_remembered() -> None:
    standing = KeyReputation()
    for number in range(2 * ORIGINS):
        standing.taken(f"https://x{number}.notify.windows.com:443")
    assert len(standing.taken_at) == ORIGINS


@pytest.mark.parametrize(
    ("found", "alone"),
    [
        (answered(406, x_wns_notificationstatus="channelThrottled"), True),
        (answered(406, x_wns_notificationstatus="dropped"), False),
        (answered(429), False),
        (answered(503), False),
        (answered(302), False),
        (answered(401), True),
        (answered(400, UNAUTHORIZED), True),
    ],
)
def test_what_is_about_one_browser_alone_is_told_so(found: Receipt, alone: bool) -> None:
    assert isinstance(found, RetryAt)
    assert found.alone is alone


@pytest.mark.parametrize("status", [429, 503, 500, 302])
@pytest.mark.parametrize(
    ("said", "at"),
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
def test_what_it_asks_for_is_granted_within_a_day(status: int, said: str, at: datetime) -> None:
    found = answered(status, retry_after=said)
    assert isinstance(found, RetryAt)
    assert found.at == at


@given(st.integers(100, 599), st.binary(max_size=200), st.text(max_size=40))
def test_whatever_is_answered_there_is_a_receipt_and_nothing_that_was_said_is_in_it(
    status: int, body: bytes, after: str
) -> None:
    found = answered(status, body + b"https://secret.example/path", retry_after=after)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"errno": ' + b"9" * 5000 + b"}", b"\xff" * 5000, errno(True), errno("109")]
)
def test_a_body_that_is_meant_to_harm_does_none(body: bytes) -> None:
    assert answered(410, body) == DropToken(reason="status 410")
