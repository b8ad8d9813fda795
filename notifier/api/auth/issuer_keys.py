"""The keyring: the issuer's public keys, fetched when they are needed and kept while its address doesn't answer."""

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

# Public keys as issuers publish them: a JWK set, one JWK, or PEM; two algorithms, and nothing that isn't public.

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


LOGGER = logging.getLogger("notifier.api")

FRESH = timedelta(minutes=10)
"""What the issuer takes away counts no longer than that, while its address answers."""
AWAY = timedelta(hours=1)
"""So much longer while it doesn't. Tokens last for minutes, so later none is left that a key of then could have signed
in good faith; and whoever can keep us from the issuer keeps alive a stolen key for so long at most."""
AGAIN = timedelta(seconds=10)
"""Between two fetches: anybody can write a `kid` that nobody knows, a thousand times a second."""


class Keyring(Protocol):
    async def key(self, kid: str) -> PublicKey | None:
        """None for a key that isn't the issuer's. Raises IssuerUnavailable when that can't be known."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """The one key of a file: it needs no name, so that whatever a token calls it is right."""

    only: PublicKey

    async def key(self, _: str) -> PublicKey | None:
        return self.only


@dataclass(slots=True)
class Fetched:
    """For one loop. Who asks waits for a fetch only when there is no answer without it; all wait for the same."""

    fetch: Callable[[], Awaitable[bytes]]
    """Bounded in time and size. Raises IssuerUnavailable."""
    failed: Callable[[], object] | None = None
    """Told of every fetch that brought no keys."""
    now: Callable[[], float] = monotonic
    keys: Mapping[str, PublicKey] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    trouble: str = ""
    """Why the last fetch brought no keys."""
    running: "asyncio.Task[None] | None" = None

    async def key(self, kid: str) -> PublicKey | None:
        if kid not in self.keys or self._older_than(FRESH):
            await self._refresh(kid)
        if self._older_than(FRESH + AWAY) or (self.trouble and kid not in self.keys):
            # Without the cause, which may name hosts that are nobody's business; the log has it.
            raise IssuerUnavailable
        return self.keys.get(kid)

    async def _refresh(self, kid: str) -> None:
        if self.running is None:
            if self.now() - self.tried_at < AGAIN.total_seconds():
                return
            self.tried_at = self.now()
            self.running = asyncio.create_task(self._fetch())
        # While the address is in trouble whoever brings a known key is let in with it at once.
        if not self.trouble or kid not in self.keys or self._older_than(FRESH + AWAY):
            await asyncio.shield(self.running)

    async def _fetch(self) -> None:
        try:
            self.keys = public_keys(await self.fetch())
            self.fetched_at = self.now()
            self._note("")
        except (IssuerUnavailable, ValueError) as error:
            # Fails open, for as long as the last keys count. An answer without a key is a mistake, and no word of the
            # issuer's that there should be none.
            self._note(error.detail if isinstance(error, IssuerUnavailable) else f"Of what it answers: {error}.")
            if self.failed is not None:
                self.failed()
        finally:
            self.running = None

    def _note(self, trouble: str) -> None:
        """Once when it begins, and once when it ends."""
        if trouble and not self.trouble:
            LOGGER.warning("The issuer's keys can't be had; the last ones count for a while. %s", trouble)
        elif self.trouble and not trouble:
            LOGGER.info("The issuer's keys can be had again")
        self.trouble = trouble

    def _older_than(self, age: timedelta) -> bool:
        return self.now() - self.fetched_at > age.total_seconds()


# Fetching the issuer's keys: one GET, bounded in time and size, in a thread of its own.

LARGEST = 64 * 1024
"""Bytes: some thirty RSA keys with their certificates."""
SILENT_FOR = timedelta(seconds=3)
"""Of the other side, at a stretch."""
WITHIN = timedelta(seconds=5)
"""In all: so long a request waits that nobody can answer without the keys."""


def fetching(url: str) -> Callable[[], Awaitable[bytes]]:
    """Starts no thread before it is called. A server that drips holds that one thread, and nobody."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="issuer")

    async def ask() -> bytes:
        try:
            async with asyncio.timeout(WITHIN.total_seconds()):
                return await asyncio.get_running_loop().run_in_executor(thread, partial(fetch, url))
        except TimeoutError:
            raise IssuerUnavailable(f"{url} didn't answer within {WITHIN.total_seconds():g} s.") from None

    return ask


def fetch(url: str) -> bytes:
    """Raises IssuerUnavailable."""
    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener(_Stays()).open(request, timeout=SILENT_FOR.total_seconds()) as answer:
            found = bytes(answer.read(LARGEST + 1))
    except HTTPError as error:
        with error:
            raise IssuerUnavailable(f"{url} answered {error.code}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise IssuerUnavailable(f"{url}: {error}.") from error
    if len(found) > LARGEST:
        raise IssuerUnavailable(f"{url} answered with more than {LARGEST} bytes.")
    return found


class _Stays(HTTPRedirectHandler):
    """The address in the settings was looked at; where it sends us to was not, and may be plain HTTP."""

    def redirect_request(self, *_: Any) -> None:
        return None
