"""Public keys as issuers publish them: a JWK set, one JWK, or PEM; two algorithms, and nothing that isn't public."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_pem_public_key

EDDSA, RS256 = "EdDSA", "RS256"
SHORTEST_RSA = 2048
"""Bits; NIST SP 800-131A allows no less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key is good for the one algorithm of its kind, whatever a token says: so a public key is never taken for the
    secret of HS256, and no token goes without a signature."""

    algorithm: str
    key: RSAPublicKey | Ed25519PublicKey


class _Jwk(msgspec.Struct):
    """The private members have no field, and are never read."""

    kty: str
    kid: str = ""
    use: str = "sig"
    alg: str = ""
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""


class _JwkSet(msgspec.Struct):
    keys: list[msgspec.Raw]


def public_keys(text: bytes) -> Mapping[str, PublicKey]:
    """By `kid`, of a JWK set. Keys of other kinds or for other uses are passed over; raises ValueError when none is
    left, or when it is no such set."""
    try:
        found = [one for raw in msgspec.json.decode(text, type=_JwkSet).keys if (one := _usable(raw))]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError("it is no JWK set") from error
    if not found:
        raise ValueError("it has no key for EdDSA or RS256 with a kid")
    return dict(found)


def public_key(text: bytes) -> PublicKey:
    """Of a file with one: PEM, or a JWK. Raises ValueError."""
    try:
        if text.lstrip().startswith(b"-----"):
            return _of_its_kind(load_pem_public_key(text))
        return _of_jwk(msgspec.json.decode(text, type=_Jwk))
    except (msgspec.MsgspecError, RecursionError, UnsupportedAlgorithm) as error:
        raise ValueError("it is neither PEM nor a JWK") from error


def _usable(raw: msgspec.Raw) -> tuple[str, PublicKey] | None:
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
        return (jwk.kid, _of_jwk(jwk)) if jwk.kid else None
    except (msgspec.MsgspecError, ValueError):
        return None


def _of_jwk(jwk: _Jwk) -> PublicKey:
    match jwk:
        case _Jwk(kty="RSA", use="sig", alg="" | "RS256"):
            return _of_its_kind(RSAPublicNumbers(_number(jwk.e), _number(jwk.n)).public_key())
        # RFC 9864 calls EdDSA with this curve by the curve's name.
        case _Jwk(kty="OKP", use="sig", alg="" | "EdDSA" | "Ed25519", crv="Ed25519"):
            return _of_its_kind(Ed25519PublicKey.from_public_bytes(_bytes(jwk.x)))
        case _:
            raise ValueError("it is no key for EdDSA or RS256")


def _of_its_kind(key: object) -> PublicKey:
    match key:
        case Ed25519PublicKey():
            return PublicKey(algorithm=EDDSA, key=key)
        case RSAPublicKey() if key.key_size >= SHORTEST_RSA:
            return PublicKey(algorithm=RS256, key=key)
        case _:
            raise ValueError(f"it is neither Ed25519 nor RSA of {SHORTEST_RSA} bits or more")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")
