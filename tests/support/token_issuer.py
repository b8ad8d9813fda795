"""A token issuer that a test controls: its keys, key set, tokens and failures."""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.api.auth.authenticators import Authenticator, build_authenticator
from notifier.api.auth.issuer_keys import FetchedKeys
from notifier.api.auth.tokens import IssuerTokenVerifier
from notifier.domain.errors import IssuerUnavailable
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import MemoryBackend

NAME, AUDIENCE = "https://id.example", "inbox"
NOW = int(START.timestamp())
VALID_CLAIMS: dict[str, Any] = {"iss": NAME, "sub": "u1", "aud": AUDIENCE, "iat": NOW, "exp": NOW + 900}

PrivateKey = RSAPrivateKey | Ed25519PrivateKey


@cache
def rsa(number: int = 0, bits: int = 2048) -> RSAPrivateKey:
    """Generate the key once: it takes 0.1 s."""
    return generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ed(number: int = 0) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@dataclass(slots=True)
class FakeIssuer:
    """Signs with an Ed25519 key named `a` and an RSA key named `b`."""

    keys: dict[str, PrivateKey] = field(default_factory=lambda: {"a": ed(), "b": rsa()})
    error: str = ""
    fetch_count: int = 0

    def authenticator(self, backend: MemoryBackend) -> Authenticator:
        """Return an authenticator for a system whose users' tokens come from this issuer."""
        keyring = FetchedKeys(self.fetch, now=lambda: backend.clock.now().timestamp())
        own = build_authenticator(backend.system.settings, backend.keys, backend.system.metrics)
        return replace(own, token_verifier=IssuerTokenVerifier(issuer=NAME, audience=AUDIENCE, keyring=keyring))

    async def fetch(self) -> bytes:
        self.fetch_count += 1
        if self.error:
            raise IssuerUnavailable(self.error)
        return self.published()

    def published(self) -> bytes:
        return json.dumps({"keys": [jwk(key, kid=kid) for kid, key in self.keys.items()]}).encode()

    def sign(self, kid: str | None = "a", key: PrivateKey | None = None, **changes: Any) -> str:
        """Return a valid token for u1 with these changes; None removes a claim."""
        claims = {name: value for name, value in (VALID_CLAIMS | changes).items() if value is not None}
        headers = None if kid is None else {"kid": kid}
        return forged(claims, key or self.keys[kid or "a"], headers)


def forged(claims: dict[str, Any], key: PrivateKey, headers: dict[str, Any] | None = None) -> str:
    """Sign claims of any type, also invalid ones."""
    algorithm = "RS256" if isinstance(key, RSAPrivateKey) else "EdDSA"
    return jwt.api_jws.encode(json.dumps(claims).encode(), key, algorithm=algorithm, headers=headers)


def jwk(key: PrivateKey, **members: str) -> dict[str, str]:
    if isinstance(key, RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"kty": "RSA", "n": _base64(_bytes(numbers.n)), "e": _base64(_bytes(numbers.e)), **members}
    return {"kty": "OKP", "crv": "Ed25519", "x": _base64(key.public_key().public_bytes_raw()), **members}


def pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_with_public_key(text: bytes, kid: str) -> str:
    """Return a token signed by HS256 with the public key as secret; only attackers build it, so no library does."""
    header = _base64(json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}).encode())
    signed = f"{header}.{_base64(json.dumps(VALID_CLAIMS).encode())}"
    return f"{signed}.{_base64(hmac.new(text, signed.encode(), hashlib.sha256).digest())}"


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
