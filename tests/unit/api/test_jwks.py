"""Public keys: which are accepted, and that unusable keys of a set are skipped."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from notifier.api.auth.issuer_keys import public_key, public_keys
from tests.support.token_issuer import ed, jwk, pem, rsa

UNUSABLE = [
    {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"},
    {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "s"},
    {"kty": "OKP", "crv": "X25519", "x": "AA", "kid": "s"},
    {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "s"},
    {"kty": "RSA", "n": "AA", "e": "AQAB", "kid": "s"},
    {"kty": "RSA", "n": "ü", "e": "AQAB", "kid": "s"},
    {"kty": "RSA", "kid": "s"},
    jwk(rsa(), kid="s", alg="HS256"),
    jwk(rsa(), kid="s", alg="RS512"),
    jwk(rsa(), kid="s", use="enc"),
    jwk(rsa(bits=1024), kid="s"),
    jwk(ed(), kid="s", alg="none"),
    jwk(ed()),
    {"kid": "s"},
    {"kty": 7, "kid": "s"},
    {"kty": None},
    "s",
    [],
    None,
]


def test_key_set_is_read_by_key_id() -> None:
    keys = public_keys(published(jwk(ed(), kid="a", alg="EdDSA", use="sig"), jwk(rsa(), kid="b", alg="RS256")))
    assert {kid: key.algorithm for kid, key in keys.items()} == {"a": "EdDSA", "b": "RS256"}
    assert public_keys(published(jwk(ed(), kid="a", alg="Ed25519")))["a"].algorithm == "EdDSA"


@pytest.mark.parametrize("unusable", UNUSABLE, ids=range(len(UNUSABLE)))  # keys differ in each process
def test_unusable_key_is_skipped(unusable: object) -> None:
    assert public_keys(published(unusable, jwk(ed(), kid="a"))).keys() == {"a"}
    with pytest.raises(ValueError, match="no key for EdDSA or RS256"):
        public_keys(published(unusable))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"<html>", b'{"keys": 1}', b"[" * 100_000, b'{"keys":[]}', b"\xff"]
)
def test_invalid_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a JWK set|no key for"):
        public_keys(text)


def test_key_file_may_be_pem_or_jwk() -> None:
    assert public_key(pem(rsa())).algorithm == "RS256"
    assert public_key(b"\n" + pem(ed())).algorithm == "EdDSA"
    assert public_key(json.dumps(jwk(ed())).encode()).algorithm == "EdDSA"


def test_private_elliptic_or_short_key_is_refused() -> None:
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    for text in (
        ed().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        curve.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        pem(rsa(bits=1024)),
    ):
        with pytest.raises(ValueError, match=r"."):
            public_key(text)


def published(*keys: object) -> bytes:
    return json.dumps({"keys": keys}).encode()
