"""Provider credentials are validated when read, and errors never contain key material."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from notifier.adapters.push import AppleKey, ServiceAccount
from notifier.domain.errors import BadSetting
from tests.repo.repository_files import ROOT
from tests.support.domain_examples import NOON
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, fake_google_key, pem, service_account

VALID_PEM = pem(apple_key())
KEY_MATERIAL = VALID_PEM.decode().splitlines()[1]
"""Key material that must never appear in an error."""
PUBLIC = apple_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
ENCRYPTED = apple_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
ED25519 = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
P384 = pem(ec.derive_private_key(7, ec.SECP384R1()))


def error_of(read: Callable[[], object]) -> str:
    with pytest.raises(BadSetting) as caught:
        read()
    texts = f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    assert KEY_MATERIAL not in texts
    assert KEY_MATERIAL[8:40] not in texts
    return caught.value.detail


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "is not PEM: it does not begin with -----BEGIN PRIVATE KEY-----."),
        (b"\xff\x00\x01", "is not PEM"),
        (KEY_MATERIAL.encode(), "is not PEM"),
        (b"/etc/apns/AuthKey.p8", "is not PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "is PEM, but not a readable private key"),
        (VALID_PEM[:-60], "is PEM, but not a readable private key"),
        (VALID_PEM.replace(b"M", b"N", 1), "is PEM, but not a readable private key"),
        (PUBLIC, "is PEM, but not a readable private key"),
        (ENCRYPTED, "is encrypted with a password; use a key without one."),
        (ED25519, "has the wrong kind; an elliptic curve key on P-256, as in Apple's AuthKey_….p8, is required."),
        (pem(fake_google_key()), "has the wrong kind"),
        (P384, "is on another curve; an elliptic curve key on P-256"),
    ],
    ids=range(12),
)
def test_invalid_apns_key_is_rejected_with_its_fault(text: bytes, error: str) -> None:
    detail = error_of(lambda: AppleKey.read(text, key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID))
    assert f"The key of APNs {error}" in detail


@pytest.mark.parametrize(
    "id_", ["", "KEY123456", "KEY12345678", "key1234567", "KEY 123456", "KEY123456é", KEY_MATERIAL]
)
def test_key_and_team_ids_have_ten_characters(id_: str) -> None:
    assert "key id" in error_of(lambda: AppleKey.read(VALID_PEM, key_id=id_, team_id=APPLE_TEAM_ID))
    assert "team id" in error_of(lambda: AppleKey.read(VALID_PEM, key_id=APPLE_KEY_ID, team_id=id_))


def test_repr_contains_no_key_material() -> None:
    assert (
        repr(AppleKey.read(VALID_PEM, key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID))
        == "AppleKey(key_id='KEY1234567', team_id='TEAM123456')"
    )
    assert "key=" not in repr(ServiceAccount.read(service_account()))


PRINT_TOKEN = """
from datetime import UTC, datetime
from notifier.adapters.push import AppleKey, ProviderTokens
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, pem
tokens = ProviderTokens(AppleKey.read(pem(apple_key()), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID))
print(tokens.current(datetime.fromtimestamp(float(input()), UTC)))
"""


def test_processes_share_provider_token_for_half_an_hour() -> None:
    moments = [NOON + timedelta(seconds=1), NOON + timedelta(minutes=29, seconds=59)]
    tokens = {
        subprocess.run(
            [sys.executable, "-c", PRINT_TOKEN],
            input=str(moment.timestamp()),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for moment in moments
    }
    assert len(tokens) == 1
    [token] = tokens
    assert token.count(".") == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "is not valid JSON"),
        (b"\xff", "is not valid JSON"),
        (VALID_PEM, "is not valid JSON"),
        (b"[]", "must contain type, project_id"),
        (b"{}", "must contain type, project_id"),
        (b'{"installed":{"client_id":"x"}}', "must contain type, project_id"),
        (service_account(type="authorized_user"), "must have the type service_account"),
        (service_account(private_key=7), "all as text"),
        (service_account(private_key="AAAA"), "The private_key in the service account of FCM is not PEM"),
        (service_account(private_key=VALID_PEM.decode()), "has the wrong kind; RSA is required."),
        (service_account(project_id="a/../b"), "has no valid project_id"),
        (service_account(project_id=""), "has no valid project_id"),
        (service_account("http://oauth2.googleapis.com/token"), "must be https"),
        (service_account("ftp://oauth2.googleapis.com/token"), "is not a URL"),
        (service_account("oauth2.googleapis.com/token"), "is not a URL"),
        (service_account("https:///token"), "must be https"),
        (service_account("https://h:99999/token"), "is not a URL"),
        (service_account("https://[::1/token"), "is not a URL"),
    ],
    ids=range(18),
)
def test_invalid_service_account_is_rejected_with_its_fault(text: bytes, error: str) -> None:
    assert error in error_of(lambda: ServiceAccount.read(text))


def test_loopback_token_uri_may_use_plain_http() -> None:
    account = ServiceAccount.read(service_account("http://127.0.0.1:8123/token"))
    assert (account.token_origin, account.token_path) == ("http://127.0.0.1:8123", "/token")
    assert ServiceAccount.read(service_account("http://[::1]/token")).token_origin == "http://[::1]:80"


def test_unknown_service_account_fields_are_ignored() -> None:
    assert ServiceAccount.read(service_account(universe_domain="googleapis.com", client_id="7")).project == "made-up"


WITHOUT_LIBRARY = """
import sys
sys.modules["firebase_admin"] = None  # as if it weren't installed
from notifier.config import Settings
from notifier.domain.errors import BadSetting
from notifier.profiles.push_providers import require_credentials
for mode in ("off", "auto"):
    environment = {"NOTIFIER_PUSH_FCM_LIBRARY": "firebase-admin", "NOTIFIER_PUSH_FAKES": mode}
    try:
        require_credentials(Settings.read(environment).push)
        print(mode, "needs nothing")
    except BadSetting as error:
        print(mode, error.detail)
"""


def test_missing_firebase_admin_is_reported_when_needed() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    off, auto = completed.stdout.splitlines()
    assert off == "off needs nothing"
    assert auto.startswith("auto NOTIFIER_PUSH_FCM_LIBRARY needs an extra: pip install")
