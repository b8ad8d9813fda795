"""Subscriptions: what apps hand on is taken if an alert can be encrypted for it, and otherwise refused in words."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, derive_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.device import WebSubscription
from notifier.domain.endpoint import PushServices
from notifier.domain.subscription import on_the_curve, subscription

SERVICES = PushServices()
ENDPOINT = "https://fcm.googleapis.com/wp/x"
POINT = derive_private_key(7, SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
COMPRESSED = derive_private_key(7, SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
SECRET = bytes(range(16))


def url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


P256DH, AUTH = url(POINT), url(SECRET)


@pytest.mark.parametrize(
    "write", [url, lambda raw: b64encode(raw).decode(), lambda raw: urlsafe_b64encode(raw).decode()]
)
def test_what_a_browser_has_is_taken_in_either_alphabet(write: Callable[[bytes], str]) -> None:
    taken = subscription(ENDPOINT, write(POINT), write(SECRET), SERVICES)
    assert taken == WebSubscription(endpoint=ENDPOINT, key=POINT, secret=SECRET)


@pytest.mark.parametrize(
    ("endpoint", "p256dh", "auth", "why"),
    [
        ("http://127.0.0.1/x", P256DH, AUTH, "endpoint: it is no https://"),
        ("https://evil.com/x", P256DH, AUTH, "endpoint: its host is no push service"),
        (ENDPOINT, "", AUTH, "p256dh: it has 0 bytes, not 65"),
        (ENDPOINT, url(POINT[:-1]), AUTH, "p256dh: it has 64 bytes, not 65"),
        (ENDPOINT, url(COMPRESSED), AUTH, "p256dh: it has 33 bytes, not 65"),
        (ENDPOINT, url(b"\x02" + POINT[1:]), AUTH, "p256dh: it is no point"),
        (ENDPOINT, url(POINT[:-1] + bytes([POINT[-1] ^ 1])), AUTH, "p256dh: it is no point"),
        (ENDPOINT, url(b"\x04" + bytes(64)), AUTH, "p256dh: it is no point"),
        (ENDPOINT, url(b"\x04" + b"\xff" * 64), AUTH, "p256dh: it is no point"),
        (ENDPOINT, P256DH[:-1] + "!", AUTH, "p256dh: it is no base64url"),
        (ENDPOINT, P256DH + "é", AUTH, "p256dh: it is no base64url"),
        (ENDPOINT, P256DH + " ", AUTH, "p256dh: it is no base64url"),
        (ENDPOINT, P256DH + "\n", AUTH, "p256dh: it is no base64url"),
        (ENDPOINT, P256DH, "", "auth: it has 0 bytes, not 16"),
        (ENDPOINT, P256DH, url(SECRET + b"x"), "auth: it has 17 bytes, not 16"),
        (ENDPOINT, P256DH, url(SECRET[1:]), "auth: it has 15 bytes, not 16"),
        (ENDPOINT, P256DH, "A", "auth: it is no base64url"),
        (ENDPOINT, P256DH, AUTH + "=A", "auth: it is no base64url"),
    ],
)
def test_what_no_alert_can_be_encrypted_for_is_refused_in_words(
    endpoint: str, p256dh: str, auth: str, why: str
) -> None:
    with pytest.raises(ValueError, match=f"^{why}"):
        subscription(endpoint, p256dh, auth, SERVICES)


def test_a_point_with_a_coordinate_beyond_the_field_is_another_spelling_of_one_and_no_key() -> None:
    field = 2**256 - 2**224 + 2**192 + 2**96 - 1
    small = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), b"\x02" + (5).to_bytes(32, "big"))
    point = small.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    assert on_the_curve(point)
    assert not on_the_curve(b"\x04" + (5 + field).to_bytes(32, "big") + point[33:])


@given(st.integers(1, 2**255), st.integers(1, 64), st.integers(1, 255))
@settings(max_examples=50)
def test_every_key_is_a_point_and_hardly_any_other_bytes_are(number: int, place: int, flips: int) -> None:
    key = bytearray(
        derive_private_key(number, SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    )
    assert on_the_curve(bytes(key))
    key[place] ^= flips
    try:
        EllipticCurvePublicKey.from_encoded_point(SECP256R1(), bytes(key))
        usable = True
    except ValueError:
        usable = False
    assert on_the_curve(bytes(key)) is usable
