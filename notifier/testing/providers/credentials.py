"""Keys to try senders with, as the providers' pages hand them out; nobody else knows them, and they open nothing."""

import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

KEY_ID, TEAM_ID = "KEY1234567", "TEAM123456"
PROJECT, EMAIL = "made-up", "sender@made-up.iam.gserviceaccount.com"
TOKEN_URI = "https://oauth2.googleapis.com/token"
GOOGLE_KEY_ID = "0123456789abcdef0123456789abcdef01234567"


def apple_key(number: int = 1) -> ec.EllipticCurvePrivateKey:
    """Of a number, so that processes that know nothing of each other have the same."""
    return ec.derive_private_key(number, ec.SECP256R1())


@cache
def google_key() -> rsa.RSAPrivateKey:
    """One a process: making it takes a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def service_account(token_uri: str = TOKEN_URI, **other: object) -> bytes:
    """The file, with whatever a test wants otherwise."""
    file = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": GOOGLE_KEY_ID,
        "private_key": pem(google_key()).decode(),
        "client_email": EMAIL,
        "token_uri": token_uri,
    }
    return json.dumps(file | other).encode()
