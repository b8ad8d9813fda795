"""Keys to try senders with, as the providers' pages hand them out."""

import json

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from notifier.adapters.push.fakes import (
    EMAIL,
    GOOGLE_KEY_ID,
    KEY_ID,
    PROJECT,
    TEAM_ID,
    TOKEN_ORIGIN,
    TOKEN_PATH,
    elliptic_key,
    google_file,
    google_key,
)

__all__ = [
    "EMAIL",
    "GOOGLE_KEY_ID",
    "KEY_ID",
    "PROJECT",
    "TEAM_ID",
    "TOKEN_URI",
    "apple_key",
    "google_key",
    "pem",
    "service_account",
]

TOKEN_URI = TOKEN_ORIGIN + TOKEN_PATH


def apple_key(number: int = 1) -> ec.EllipticCurvePrivateKey:
    """The first is the one that fakes take."""
    return elliptic_key(number)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def service_account(token_uri: str = TOKEN_URI, **other: object) -> bytes:
    """The file, with whatever a test wants otherwise."""
    return json.dumps(json.loads(google_file(token_uri)) | other).encode()
