"""Web Push encryption follows RFC 8291 byte for byte."""

from base64 import urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.push.webpush.encrypted_message import OVERHEAD_BYTES, MessageKeyPair, encrypt
from notifier.devkit.fake_providers.fake_browser import decrypt


def plain(*parts: str) -> bytes:
    text = "".join(parts)
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private(*parts: str) -> EllipticCurvePrivateKey:
    return derive_private_key(int.from_bytes(plain(*parts), "big"), SECP256R1())


# RFC 8291, section 5 and appendix A.
PLAINTEXT = b"When I grow up, I want to be a watermelon"
SENDER = private("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
BROWSER = private("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")
KEY = plain("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
SECRET = plain("BTBZMqHH6r4Tts7J_aSIgg")
SALT = plain("DGv6ra1nlYgDCS1FRnbzlw")
MESSAGE = plain(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
    "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
    "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
)


def encrypted_for_browser(content: bytes, length: int, *, key: bytes = KEY, secret: bytes = SECRET) -> bytes:
    return encrypt(content, padded_length=length, key=key, secret=secret, pair=MessageKeyPair.of(SENDER), salt=SALT)


def test_encryption_reproduces_the_rfc_example() -> None:
    assert encrypted_for_browser(PLAINTEXT, len(PLAINTEXT)) == MESSAGE


def test_fake_browser_decrypts_the_rfc_example() -> None:
    """This shows that our two sides do not only fit each other."""
    assert decrypt(MESSAGE, BROWSER, SECRET) == PLAINTEXT


@given(st.binary(max_size=600), st.integers(0, 3000))
@settings(max_examples=60)
def test_content_is_decrypted_and_only_padded_length_is_visible(content: bytes, padding: int) -> None:
    length = len(content) + padding
    message = encrypted_for_browser(content, length)
    assert len(message) == length + OVERHEAD_BYTES
    assert decrypt(message, BROWSER, SECRET) == content


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        (KEY[:-1], SECRET),
        (KEY + b"\0", SECRET),
        (b"\x02" + KEY[1:33], SECRET),
        (b"\x03" + KEY[1:], SECRET),
        (KEY[:-1] + bytes([KEY[-1] ^ 1]), SECRET),
        (b"\x04" + bytes(64), SECRET),
        (b"", SECRET),
        (KEY, SECRET[:-1]),
        (KEY, SECRET + b"\0"),
        (KEY, b""),
    ],
)
def test_invalid_subscription_keys_are_rejected(key: bytes, secret: bytes) -> None:
    with pytest.raises(ValueError, match=r"key|curve|point"):
        encrypted_for_browser(PLAINTEXT, 64, key=key, secret=secret)


@pytest.mark.parametrize("position", [0, 20, 21, 40, 86, 100, -1])
def test_modified_message_is_rejected(position: int) -> None:
    changed = bytearray(MESSAGE)
    changed[position] ^= 1
    with pytest.raises(ValueError, match=r"."):
        decrypt(bytes(changed), BROWSER, SECRET)


@pytest.mark.parametrize("size", [0, 17, 57])
def test_message_must_have_exactly_one_record(size: int) -> None:
    with pytest.raises(ValueError, match="one record"):
        decrypt(MESSAGE[:16] + size.to_bytes(4, "big") + MESSAGE[20:], BROWSER, SECRET)


@pytest.mark.parametrize("length", [0, 1, 20, 21, 86, 102])
def test_truncated_message_is_rejected(length: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        decrypt(MESSAGE[:length], BROWSER, SECRET)


def test_only_the_subscribed_browser_can_decrypt() -> None:
    with pytest.raises(ValueError, match="not encrypted for this browser"):
        decrypt(MESSAGE, derive_private_key(7, SECP256R1()), SECRET)
    with pytest.raises(ValueError, match="not encrypted for this browser"):
        decrypt(MESSAGE, BROWSER, bytes(16))


def test_generated_key_pairs_are_unique_and_usable() -> None:
    pair = MessageKeyPair.new()
    assert len(pair.public_key) == 65
    assert MessageKeyPair.new().public_key != pair.public_key
    message = encrypt(PLAINTEXT, padded_length=64, key=KEY, secret=SECRET, pair=pair, salt=SALT)
    assert decrypt(message, BROWSER, SECRET) == PLAINTEXT
