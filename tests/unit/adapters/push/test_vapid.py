"""VAPID tokens, their caching, and validation of keys and subjects."""

import json
from base64 import urlsafe_b64decode
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push.webpush.vapid import MAX_CACHED_TOKENS, START_INTERVAL, TOKEN_LIFETIME, Vapid
from notifier.domain.errors import BadSetting
from tests.support.domain_examples import HOUR, NOON, SECOND

KEY = ec.derive_private_key(7, ec.SECP256R1())
SUBJECT = "mailto:ops@example.org"
GOOGLE, APPLE = "https://fcm.googleapis.com", "https://web.push.apple.com"


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def vapid(subject: str = SUBJECT) -> Vapid:
    return Vapid.read(pem(KEY), subject=subject)


def token_and_key(authorization: str) -> tuple[str, str]:
    assert authorization.startswith("vapid t=")
    token, key = authorization.removeprefix("vapid t=").split(", k=")
    return token, key


def claims(authorization: str) -> dict[str, object]:
    token, key = token_and_key(authorization)
    point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return jwt.decode(token, key=public, algorithms=["ES256"], options={"verify_exp": False, "verify_aud": False})


def test_token_names_audience_subject_and_expiry() -> None:
    decoded = claims(vapid().authorization(GOOGLE, NOON))
    assert decoded == {"aud": GOOGLE, "sub": SUBJECT, "exp": int((NOON + TOKEN_LIFETIME).timestamp())}


def test_token_header_names_es256() -> None:
    token, _ = token_and_key(vapid().authorization(GOOGLE, NOON))
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "JWT"}


def test_each_push_service_gets_its_own_token() -> None:
    """Another library reuses the first audience, and all other services refuse the token."""
    credentials = vapid()
    for origin in (GOOGLE, APPLE, GOOGLE):
        assert claims(credentials.authorization(origin, NOON))["aud"] == origin


def test_public_key_equals_key_in_the_token() -> None:
    credentials = vapid()
    assert token_and_key(credentials.authorization(GOOGLE, NOON))[1] == credentials.public_key
    assert len(urlsafe_b64decode(credentials.public_key + "=")) == 65


def test_token_is_cached_until_the_next_grid_time() -> None:
    credentials = vapid()
    first = credentials.authorization(GOOGLE, NOON)
    assert credentials.authorization(GOOGLE, NOON + START_INTERVAL - SECOND) is first
    assert credentials.authorization(GOOGLE, NOON + START_INTERVAL) != first


def test_signers_with_one_key_issue_identical_tokens() -> None:
    assert vapid().authorization(GOOGLE, NOON) == vapid().authorization(GOOGLE, NOON + HOUR)


@pytest.mark.parametrize("hours", [-5, -2, 0, 2, 5])
@given(st.integers(0, int(START_INTERVAL.total_seconds())))
def test_token_is_valid_if_our_clock_is_hours_off(hours: int, second: int) -> None:
    """Some lifetime is left at the receiver, and at most the 24 hours that are allowed."""
    now = NOON + timedelta(seconds=second)
    expires = claims(vapid().authorization(GOOGLE, now + hours * HOUR))["exp"]
    assert isinstance(expires, int)
    assert 0 < expires - now.timestamp() <= 24 * 3600


def test_token_cache_is_bounded() -> None:
    credentials = vapid()
    for number in range(2 * MAX_CACHED_TOKENS + 1):
        credentials.authorization(f"https://x{number}.notify.windows.com", NOON)
    assert len(credentials._headers) <= MAX_CACHED_TOKENS
    assert claims(credentials.authorization(GOOGLE, NOON))["aud"] == GOOGLE


def test_repr_contains_no_secrets() -> None:
    credentials = vapid()
    token, _ = token_and_key(credentials.authorization(GOOGLE, NOON))
    assert token not in repr(credentials)
    assert "PrivateKey" not in repr(credentials)


@pytest.mark.parametrize(
    "subject",
    [
        SUBJECT,
        "mailto:celebrity-alerts+push@mail.example.co.uk",
        "https://example.org",
        "https://www.example.org/contact?about=push",
    ],
)
def test_reachable_subject_is_accepted(subject: str) -> None:
    assert claims(vapid(subject).authorization(GOOGLE, NOON))["sub"] == subject


@pytest.mark.parametrize(
    "subject",
    [
        "", "ops@example.org", "mailto:", "mailto:ops", "mailto:@example.org", "mailto: ops@example.org",
        "mailto:ops@localhost",
        "mailto:<ops@example.org>", "mailto:Ops <ops@example.org>", "mailto:ops@example", "mailto:ops@host.local",
        "mailto:ops@host.invalid", "mailto:ops@push.test", "mailto:ops@127.0.0.1", "mailto:a@example.org,b@example.org",
        "mailto:ops@example.org?subject=x", "mailto:ops@example.org\n", "MAILTO:ops@example.org", "http://example.org",
        "https://", "https://localhost", "https://localhost:8080/x", "https://127.0.0.1/x", "https://[::1]/x", "https://intranet/x",
        "https://user@example.org/", "https://example.org/a b", "https://exämple.org/", "ftp://example.org", "https://[",
    ],
)  # fmt: skip
def test_unreachable_subject_is_rejected(subject: str) -> None:
    with pytest.raises(BadSetting, match="subject of Web Push"):
        vapid(subject)


INVALID_KEYS = [
    ("is not PEM", b""),
    ("is not PEM", urlsafe_b64decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw=")),
    ("is not PEM", b"yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),  # raw base64, as other tools print keys
    ("readable", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ("readable", KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
    ("wrong kind", pem(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)))),
    ("wrong kind", pem(rsa.generate_private_key(65537, 1024))),
    ("another curve", pem(ec.derive_private_key(7, ec.SECP384R1()))),
    ("a password", KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))),
]


@pytest.mark.parametrize(("reason", "key"), INVALID_KEYS)
def test_invalid_key_is_rejected_without_key_material(reason: str, key: bytes) -> None:
    with pytest.raises(BadSetting, match=reason) as refused:
        Vapid.read(key, subject=SUBJECT)
    assert "The key of Web Push" in str(refused.value)
    body = b"".join(key.splitlines()[1:-1]).decode("latin-1")
    assert not body or body[:20] not in str(refused.value)


def test_key_in_traditional_openssl_format_is_accepted() -> None:
    traditional = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert Vapid.read(traditional, subject=SUBJECT).public_key == vapid().public_key


def test_token_parts_are_valid_json() -> None:
    token, _ = token_and_key(vapid().authorization(GOOGLE, NOON))
    head, body, signature = token.split(".")
    for part in (head, body):
        json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert len(urlsafe_b64decode(signature + "==")) == 64
