"""Public keys of the token issuer, from a file or a URL."""

import asyncio
import logging
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.client import HTTPException
from time import monotonic
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from notifier.domain.errors import IssuerUnavailable

# Public key formats.

EDDSA, RS256 = "EdDSA", "RS256"
MIN_RSA_BITS = 2048
"""Minimum RSA key size in bits, by NIST SP 800-131A."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key with its only permitted algorithm, whatever algorithm a token names.

    So a public key is never used as an HS256 secret, and unsigned tokens are rejected.
    """

    algorithm: str
    key: RSAPublicKey | Ed25519PublicKey


class _Jwk(msgspec.Struct):
    """The public members of a JWK. Private members have no field, so they are never read."""

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
    """Return the keys of a JWK set by `kid`. Skips keys without a `kid`, and keys that `public_key` would reject.

    Raises ValueError if the text is no JWK set or no key is usable.
    """
    try:
        usable_keys = [
            kid_and_key for raw in msgspec.json.decode(text, type=_JwkSet).keys if (kid_and_key := _usable_key(raw))
        ]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError("not a JWK set") from error
    if not usable_keys:
        raise ValueError("no key for EdDSA or RS256 with a kid")
    return dict(usable_keys)


def public_key(text: bytes) -> PublicKey:
    """Return the key of a file that contains a PEM key or a single JWK. Raises ValueError."""
    try:
        if text.lstrip().startswith(b"-----"):
            return _checked_key(load_pem_public_key(text))
        return _jwk_key(msgspec.json.decode(text, type=_Jwk))
    except (msgspec.MsgspecError, RecursionError, UnsupportedAlgorithm) as error:
        raise ValueError("neither PEM nor a JWK") from error


def _usable_key(raw: msgspec.Raw) -> tuple[str, PublicKey] | None:
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
        return (jwk.kid, _jwk_key(jwk)) if jwk.kid else None
    except (msgspec.MsgspecError, ValueError):
        return None


def _jwk_key(jwk: _Jwk) -> PublicKey:
    match jwk:
        case _Jwk(kty="RSA", use="sig", alg="" | "RS256"):
            return _checked_key(RSAPublicNumbers(_number(jwk.e), _number(jwk.n)).public_key())
        # RFC 9864 calls this algorithm `Ed25519`; its older name is `EdDSA`.
        case _Jwk(kty="OKP", use="sig", alg="" | "EdDSA" | "Ed25519", crv="Ed25519"):
            return _checked_key(Ed25519PublicKey.from_public_bytes(_bytes(jwk.x)))
        case _:
            raise ValueError("not a key for EdDSA or RS256")


def _checked_key(key: object) -> PublicKey:
    match key:
        case Ed25519PublicKey():
            return PublicKey(algorithm=EDDSA, key=key)
        case RSAPublicKey() if key.key_size >= MIN_RSA_BITS:
            return PublicKey(algorithm=RS256, key=key)
        case _:
            raise ValueError(f"neither Ed25519 nor RSA with at least {MIN_RSA_BITS} bits")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


LOGGER = logging.getLogger("notifier.api")

MAX_KEY_AGE = timedelta(minutes=10)
"""Maximum age of the keys while the issuer answers. A revoked key may be accepted for this time."""
OUTAGE_EXTENSION = timedelta(hours=1)
"""Time beyond MAX_KEY_AGE for which the keys stay valid while fetches fail.

An attacker who blocks the connection to the issuer can use a revoked key for this time longer.
"""
MIN_FETCH_INTERVAL = timedelta(seconds=10)
"""Minimum time between two fetches, however many tokens with unknown `kid` values an attacker sends."""


class Keyring(Protocol):
    async def key(self, kid: str) -> PublicKey | None:
        """Return the issuer's key with this id, or None if there is none. Raises IssuerUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class FixedKey:
    """The single key of a file. It verifies tokens with any `kid`."""

    public_key: PublicKey

    async def key(self, _: str) -> PublicKey | None:
        return self.public_key


@dataclass(slots=True)
class FetchedKeys:
    """Keys fetched from the issuer. Concurrent calls share one fetch. One instance per event loop."""

    fetch: Callable[[], Awaitable[bytes]]
    """Fetches the key set, within limits of time and size. Raises IssuerUnavailable."""
    on_failure: Callable[[], object] | None = None
    """Called after every fetch that returned no keys."""
    now: Callable[[], float] = monotonic
    keys: Mapping[str, PublicKey] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    fetch_started_at: float = float("-inf")
    failure: str = ""
    """Why the last fetch returned no keys; empty after a success."""
    refresh_task: "asyncio.Task[None] | None" = None

    async def key(self, kid: str) -> PublicKey | None:
        if kid not in self.keys or self._older_than(MAX_KEY_AGE):
            await self._refresh(kid)
        if self._older_than(MAX_KEY_AGE + OUTAGE_EXTENSION) or (self.failure and kid not in self.keys):
            # The client must not see the cause, which may contain internal host names.
            raise IssuerUnavailable
        return self.keys.get(kid)

    async def _refresh(self, kid: str) -> None:
        if self.refresh_task is None:
            if self.now() - self.fetch_started_at < MIN_FETCH_INTERVAL.total_seconds():
                return
            self.fetch_started_at = self.now()
            self.refresh_task = asyncio.create_task(self._fetch())
        # After a failed fetch, requests whose key is known and still valid do not wait for the next fetch.
        if not self.failure or kid not in self.keys or self._older_than(MAX_KEY_AGE + OUTAGE_EXTENSION):
            await asyncio.shield(self.refresh_task)

    async def _fetch(self) -> None:
        try:
            self.keys = public_keys(await self.fetch())
            self.fetched_at = self.now()
            self._set_failure("")
        except (IssuerUnavailable, ValueError) as error:
            # Fails open: the keys fetched last stay valid for a while. A response without keys does not revoke them.
            self._set_failure(error.detail if isinstance(error, IssuerUnavailable) else f"Unusable answer: {error}.")
            if self.on_failure is not None:
                self.on_failure()
        finally:
            self.refresh_task = None

    def _set_failure(self, failure: str) -> None:
        """Set `failure`. Log when fetches begin to fail, and when they succeed again."""
        if failure and not self.failure:
            LOGGER.warning("can't fetch the issuer's keys; the last keys stay valid for a while: %s", failure)
        elif self.failure and not failure:
            LOGGER.info("the issuer's keys can be fetched again")
        self.failure = failure

    def _older_than(self, age: timedelta) -> bool:
        return self.now() - self.fetched_at > age.total_seconds()


# Fetching the issuer's keys.

MAX_KEY_SET_BYTES = 64 * 1024
"""Maximum response size in bytes: about thirty RSA keys with their certificates."""
SOCKET_TIMEOUT = timedelta(seconds=3)
FETCH_TIMEOUT = timedelta(seconds=5)
"""Timeout of the whole fetch, for which requests may wait."""


def fetcher(url: str) -> Callable[[], Awaitable[bytes]]:
    """Return a function that fetches the URL in a dedicated thread, which starts with the first call.

    A server that sends its response slowly blocks that thread only.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="issuer")

    async def fetch_with_timeout() -> bytes:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT.total_seconds()):
                return await asyncio.get_running_loop().run_in_executor(thread, partial(fetch, url))
        except TimeoutError:
            raise IssuerUnavailable(f"{url} did not answer within {FETCH_TIMEOUT.total_seconds():g} s.") from None

    return fetch_with_timeout


def fetch(url: str) -> bytes:
    """Return the body of the response. Raises IssuerUnavailable."""
    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener(_NoRedirects()).open(request, timeout=SOCKET_TIMEOUT.total_seconds()) as response:
            body = bytes(response.read(MAX_KEY_SET_BYTES + 1))
    except HTTPError as error:
        with error:
            raise IssuerUnavailable(f"{url} answered {error.code}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise IssuerUnavailable(f"{url}: {error}.") from error
    if len(body) > MAX_KEY_SET_BYTES:
        raise IssuerUnavailable(f"{url} answered with more than {MAX_KEY_SET_BYTES} bytes.")
    return body


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects, because only the configured URL was validated: a redirect may lead to plain HTTP."""

    def redirect_request(self, *_: Any) -> None:
        return None
