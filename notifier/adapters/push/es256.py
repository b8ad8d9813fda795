"""Tokens signed with ES256, the same bytes in every process that signs the same words."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from notifier.adapters.push.bodies import compact
from notifier.adapters.push.keys import private_key
from notifier.domain.errors import BadSetting

_ES256 = ECDSA(SHA256(), deterministic_signing=True)
"""RFC 6979: the same words have the same signature, wherever they are signed."""
_COORDINATE = 32
"""Bytes: RFC 7518 writes a signature as two of them."""


def es256_key(pem: bytes, *, whose: str, called: str) -> EllipticCurvePrivateKey:
    """Raises BadSetting. `whose` names it for who reads that, `called` is what it should be."""
    key = private_key(pem, EllipticCurvePrivateKey, whose=whose, called=called)  # type: ignore[type-abstract]  # only asked of
    if not isinstance(key.curve, SECP256R1):
        raise BadSetting(f"{whose} is of another curve; {called} is needed.")
    return key


def es256_token(key: EllipticCurvePrivateKey, head: Mapping[str, str], claims: Mapping[str, object]) -> str:
    signed = f"{base64url(compact(head))}.{base64url(compact(claims))}"
    pair = decode_dss_signature(key.sign(signed.encode(), _ES256))
    return f"{signed}.{base64url(b''.join(number.to_bytes(_COORDINATE, 'big') for number in pair))}"


def base64url(raw: bytes) -> str:
    """Without padding, as everywhere in tokens."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
