"""VAPID: tokens that every push service takes, kept for hours, and keys and subjects that are refused in words."""

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

from notifier.adapters.push.webpush.vapid import GRID, LASTS, ORIGINS, Vapid
from notifier.domain.errors import BadSetting
from tests.support.examples import HOUR, NOON, SECOND

KEY = ec.derive_private_key(7, ec.SECP256R1())
SUBJECT = "mailto:ops@example.org"
GOOGLE, APPLE = "https://fcm.googleapis.com", "https://web.push.apple.com"


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def vapid(subject: str = SUBJECT) -> Vapid:
    return Vapid.read(pem(KEY), subject=subject)


def parts(authorization: str) -> tuple[str, str]:
    assert authorization.startswith("vapid t=")
    token, key = authorization.removeprefix("vapid t=").split(", k=")
    return token, key


def claims(authorization: str) -> dict[str, object]:
    token, key = parts(authorization)
    point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return jwt.decode(token, key=public, algorithms=["ES256"], options={"verify_exp": False, "verify_aud": False})


def test_a_token_says_for_whom_by_whom_and_until_when() -> None:
    said = claims(vapid().authorization(GOOGLE, NOON))
    assert said == {"aud": GOOGLE, "sub": SUBJECT, "exp": int((NOON + LASTS).timestamp())}


def test_its_head_is_of_the_one_algorithm_that_there_is() -> None:
    token, _ = parts(vapid().authorization(GOOGLE, NOON))
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "JWT"}


def test_each_push_service_gets_a_token_for_itself_whoever_was_first() -> None:
    """Another library keeps the first one's audience, and all others refuse it."""
    ours = vapid()
    for origin in (GOOGLE, APPLE, GOOGLE):
        assert claims(ours.authorization(origin, NOON))["aud"] == origin


def test_browsers_subscribe_with_the_key_that_tokens_name() -> None:
    ours = vapid()
    assert parts(ours.authorization(GOOGLE, NOON))[1] == ours.public
    assert len(urlsafe_b64decode(ours.public + "=")) == 65


def test_a_token_is_kept_until_the_next_line_of_the_grid() -> None:
    ours = vapid()
    first = ours.authorization(GOOGLE, NOON)
    assert ours.authorization(GOOGLE, NOON + GRID - SECOND) is first
    assert ours.authorization(GOOGLE, NOON + GRID) != first


def test_every_process_sends_the_same_bytes() -> None:
    assert vapid().authorization(GOOGLE, NOON) == vapid().authorization(GOOGLE, NOON + HOUR)


@pytest.mark.parametrize("off", [-5, -2, 0, 2, 5])
@given(st.integers(0, int(GRID.total_seconds())))
def test_a_token_is_good_for_who_receives_it_even_where_our_clock_is_hours_off(off: int, second: int) -> None:
    """More than none is left of it, and no more than the 24 hours that are allowed."""
    now = NOON + timedelta(seconds=second)
    expires = claims(vapid().authorization(GOOGLE, now + off * HOUR))["exp"]
    assert isinstance(expires, int)
    assert 0 < expires - now.timestamp() <= 24 * 3600


def test_of_names_that_are_made_up_only_so_many_are_kept() -> None:
    ours = vapid()
    for number in range(2 * ORIGINS + 1):
        ours.authorization(f"https://x{number}.notify.windows.com", NOON)
    assert len(ours._kept) <= ORIGINS
    assert claims(ours.authorization(GOOGLE, NOON))["aud"] == GOOGLE


def test_what_is_printed_of_it_has_nothing_secret() -> None:
    ours = vapid()
    token, _ = parts(ours.authorization(GOOGLE, NOON))
    assert token not in repr(ours)
    assert "PrivateKey" not in repr(ours)


@pytest.mark.parametrize(
    "subject",
    [
        SUBJECT,
        "mailto:celebrity-alerts+push@mail.example.co.uk",
        "https://example.org",
        "https://www.example.org/contact?about=push",
    ],
)
def test_a_subject_is_where_somebody_can_be_reached(subject: str) -> None:
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
def test_a_subject_that_leads_to_nobody_is_refused_before_apple_does(subject: str) -> None:
    with pytest.raises(BadSetting, match="subject of Web Push"):
        vapid(subject)


OTHER_KEYS = [
    ("is not PEM", b""),
    ("is not PEM", urlsafe_b64decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw=")),
    ("is not PEM", b"yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),  # as other tools print theirs
    ("can be read", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ("can be read", KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
    ("another kind", pem(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)))),
    ("another kind", pem(rsa.generate_private_key(65537, 1024))),
    ("another curve", pem(ec.derive_private_key(7, ec.SECP384R1()))),
    ("a password", KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))),
]


@pytest.mark.parametrize(("why", "key"), OTHER_KEYS)
def test_a_key_of_another_kind_is_refused_in_words_that_have_nothing_of_it(why: str, key: bytes) -> None:
    with pytest.raises(BadSetting, match=why) as refused:
        Vapid.read(key, subject=SUBJECT)
    assert "The key of Web Push" in str(refused.value)
    body = b"".join(key.splitlines()[1:-1]).decode("latin-1")
    assert not body or body[:20] not in str(refused.value)


def test_a_key_in_openssl_s_older_form_is_taken_too() -> None:
    older = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert Vapid.read(older, subject=SUBJECT).public == vapid().public


def test_a_token_is_json_that_any_reader_takes() -> None:
    token, _ = parts(vapid().authorization(GOOGLE, NOON))
    head, body, signature = token.split(".")
    for part in (head, body):
        json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert len(urlsafe_b64decode(signature + "==")) == 64
