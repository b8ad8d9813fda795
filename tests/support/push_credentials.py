"""Credentials for senders, in the formats that the providers hand out."""

import json

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from notifier.adapters.push.public_test_credentials import (
    APPLE_KEY_ID,
    APPLE_TEAM_ID,
    GOOGLE_EMAIL,
    GOOGLE_KEY_ID,
    GOOGLE_PROJECT,
    TOKEN_ORIGIN,
    TOKEN_PATH,
    elliptic_key,
    fake_google_key,
    fake_service_account_file,
)

__all__ = [
    "APPLE_KEY_ID",
    "APPLE_TEAM_ID",
    "GOOGLE_EMAIL",
    "GOOGLE_KEY_ID",
    "GOOGLE_PROJECT",
    "TOKEN_URI",
    "apple_key",
    "fake_google_key",
    "pem",
    "service_account",
]

TOKEN_URI = TOKEN_ORIGIN + TOKEN_PATH


def apple_key(number: int = 1) -> ec.EllipticCurvePrivateKey:
    """Return a private key; the fakes accept the first one."""
    return elliptic_key(number)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def service_account(token_uri: str = TOKEN_URI, **changes: object) -> bytes:
    """Return the service account file with these fields changed."""
    return json.dumps(json.loads(fake_service_account_file(token_uri)) | changes).encode()
