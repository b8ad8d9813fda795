"""Sign deterministic ES256 JSON Web Tokens, and parse private keys."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from notifier.adapters.push.request_rounds_and_replies import compact_json
from notifier.domain.errors import BadSetting

# Private keys in PEM format.

KeyT = TypeVar("KeyT")


def parse_private_key(text: bytes, key_type: type[KeyT], *, key_name: str, required_kind: str) -> KeyT:
    """Parse a private key of one kind. Raises BadSetting.

    Error messages contain `key_name` and `required_kind`, but never the key.
    """
    if not text.lstrip().startswith(b"-----BEGIN"):
        raise BadSetting(f"{key_name} is not PEM: it does not begin with -----BEGIN PRIVATE KEY-----.")
    # Raise without the cause: its message may contain parts of the key.
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise BadSetting(f"{key_name} is encrypted with a password; use a key without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadSetting(f"{key_name} is PEM, but not a readable private key.") from None
    if not isinstance(key, key_type):
        raise BadSetting(f"{key_name} has the wrong kind; {required_kind} is required.")
    return key


_ES256 = ECDSA(SHA256(), deterministic_signing=True)
"""Deterministic signatures (RFC 6979): the same text has the same signature in every process."""
_INTEGER_BYTES = 32
"""Size of one integer. RFC 7518 concatenates the two integers of a signature."""


def parse_es256_key(pem: bytes, *, key_name: str, required_kind: str) -> EllipticCurvePrivateKey:
    """Parse a P-256 private key. Raises BadSetting."""
    key = parse_private_key(pem, EllipticCurvePrivateKey, key_name=key_name, required_kind=required_kind)  # type: ignore[type-abstract]  # only for isinstance
    if not isinstance(key.curve, SECP256R1):
        raise BadSetting(f"{key_name} is on another curve; {required_kind} is required.")
    return key


def es256_token(key: EllipticCurvePrivateKey, header: Mapping[str, str], claims: Mapping[str, object]) -> str:
    """Return the signed token. Equal arguments give equal tokens."""
    signed = f"{base64url(compact_json(header))}.{base64url(compact_json(claims))}"
    integers = decode_dss_signature(key.sign(signed.encode(), _ES256))
    return f"{signed}.{base64url(b''.join(number.to_bytes(_INTEGER_BYTES, 'big') for number in integers))}"


def base64url(raw: bytes) -> str:
    """Encode as base64url without padding, as JWT requires."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
