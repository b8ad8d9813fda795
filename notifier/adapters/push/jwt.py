"""Deterministic ES256 JSON Web Tokens, and reading of private keys."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from notifier.adapters.push.requests import compact
from notifier.domain.errors import BadSetting

# Private keys in PEM format. Error messages name the problem, and never quote the key.

Kind = TypeVar("Kind")


def private_key(text: bytes, kind: type[Kind], *, whose: str, called: str) -> Kind:
    """Parse a private key of one kind. Raises BadSetting.

    `whose` names the key in error messages, `called` describes the required kind.
    """
    if not text.lstrip().startswith(b"-----BEGIN"):
        raise BadSetting(f"{whose} is not PEM: it does not begin with -----BEGIN PRIVATE KEY-----.")
    # Drop the cause and its message: either may contain parts of the key.
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise BadSetting(f"{whose} is encrypted with a password; use a key without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadSetting(f"{whose} is PEM, but not a readable private key.") from None
    if not isinstance(key, kind):
        raise BadSetting(f"{whose} has the wrong kind; {called} is required.")
    return key


_ES256 = ECDSA(SHA256(), deterministic_signing=True)
"""Deterministic signatures (RFC 6979): the same text has the same signature in every process."""
_COORDINATE = 32
"""Bytes of one integer of a signature. RFC 7518 concatenates two of them."""


def es256_key(pem: bytes, *, whose: str, called: str) -> EllipticCurvePrivateKey:
    """Parse a P-256 private key. Raises BadSetting.

    `whose` names the key in error messages, `called` describes the required kind.
    """
    key = private_key(pem, EllipticCurvePrivateKey, whose=whose, called=called)  # type: ignore[type-abstract]  # only for isinstance
    if not isinstance(key.curve, SECP256R1):
        raise BadSetting(f"{whose} is on another curve; {called} is required.")
    return key


def es256_token(key: EllipticCurvePrivateKey, head: Mapping[str, str], claims: Mapping[str, object]) -> str:
    signed = f"{base64url(compact(head))}.{base64url(compact(claims))}"
    pair = decode_dss_signature(key.sign(signed.encode(), _ES256))
    return f"{signed}.{base64url(b''.join(number.to_bytes(_COORDINATE, 'big') for number in pair))}"


def base64url(raw: bytes) -> str:
    """Encode as base64url without padding, as JWT requires."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
