"""People's tokens: JWTs signed by this service itself, or by the issuer in the settings; never by both."""

import unicodedata
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Protocol, Self, TypeVar

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from notifier.api.auth.issuer_keys import Fetched, Held, Keyring, PublicKey, fetching, public_key
from notifier.api.auth.service_keys import Keys
from notifier.config import Issuer, Settings, variable
from notifier.domain.errors import BadSetting, BadToken
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import LONGEST_ID
from notifier.metrics import Hits, Metrics

ALGORITHM = "HS256"
AUDIENCE = "notifier"
LIFETIME = timedelta(minutes=15)
LEEWAY = timedelta(seconds=30)
"""Clocks of the one who issues and of this service may differ by so much."""
NOT_OURS = "The token is not one of ours."

_LATEST = 2**40
"""Seconds; a moment that a calendar has."""
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=_LATEST)]
_Moment = _Seconds | Annotated[float, msgspec.Meta(ge=0, le=_LATEST)]
"""As RFC 7519 allows it: some issuers tell the milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who brought a token that is good."""

    user: UserId
    ends_at: float
    """In seconds since 1970; from then on the token is refused."""
    begins_at: float = 0.0
    """Before it the token is from the future."""
    kid: str = ""
    key: PublicKey | None = None
    """The issuer's key that signed it, and the name by which the token called it; None where this service signed it."""


class TokenVerifier(Protocol):
    async def holder(self, token: str, now: datetime) -> Holder:
        """Raises BadToken, and IssuerUnavailable when that can't be known."""
        ...

    async def trusts(self, holder: Holder) -> bool:
        """Return whether the key that signed an earlier token still counts. Raises IssuerUnavailable."""
        ...


class _Own(msgspec.Struct, omit_defaults=True):
    sub: str
    aud: str
    exp: _Seconds
    iat: _Seconds
    nbf: _Seconds = 0


class _Theirs(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: _Moment
    iat: _Moment = 0
    nbf: _Moment = 0


Claims = TypeVar("Claims", _Own, _Theirs)
SigningKey = jwt.PyJWK | RSAPublicKey | Ed25519PublicKey
"""The secret, or a public key of the issuer's."""


@dataclass(frozen=True, slots=True)
class OwnTokens:
    secret: jwt.PyJWK = field(repr=False)

    @classmethod
    def of(cls, keys: Keys) -> Self:
        """The key is prepared once: PyJWT would examine a plain secret for every token, which takes half of the
        time."""
        text = urlsafe_b64encode(keys.secret.encode()).decode()
        return cls(jwt.PyJWK({"kty": "oct", "k": text}, algorithm=ALGORITHM))

    async def holder(self, token: str, now: datetime) -> Holder:
        return _judged(_read(token, self.secret, ALGORITHM, _Own), AUDIENCE, now)

    async def trusts(self, holder: Holder) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTokens:
    name: str
    audience: str
    keyring: Keyring

    async def holder(self, token: str, now: datetime) -> Holder:
        kid = _kid(token)
        key = await self.keyring.key(kid)
        if key is None:
            raise BadToken(NOT_OURS)
        claims = _read(token, key.key, key.algorithm, _Theirs)
        if claims.iss != self.name:
            raise BadToken("The token is of another issuer.")
        return replace(_judged(claims, self.audience, now), kid=kid, key=key)

    async def trusts(self, holder: Holder) -> bool:
        return await self.keyring.key(holder.kid) == holder.key


def issue(keys: Keys, user: UserId, now: datetime, lifetime: timedelta = LIFETIME) -> str:
    """A person's token, of this service's own."""
    claims = _Own(sub=user, aud=AUDIENCE, exp=int((now + lifetime).timestamp()), iat=int(now.timestamp()))
    return jwt.encode(msgspec.to_builtins(claims), keys.secret, algorithm=ALGORITHM)


def tokens_of(settings: Settings, keys: Keys, metrics: Metrics) -> TokenVerifier:
    """Connects to nothing. Raises BadSetting."""
    issuer = settings.issuer
    if not issuer.name:
        return OwnTokens.of(keys)
    failed = metrics.outages.labels("issuer").inc
    keyring = Fetched(fetching(issuer.jwks), failed) if issuer.jwks else Held(key_in(issuer))
    return IssuedTokens(name=issuer.name, audience=issuer.audience, keyring=keyring)


def key_in(issuer: Issuer) -> PublicKey:
    """The key of the issuer's file. Raises BadSetting."""
    try:
        return public_key(Path(issuer.key).read_bytes())
    except (OSError, ValueError) as error:
        raise BadSetting(f"{variable('issuer', 'key')} is {issuer.key!r}: {error}.") from error


def _kid(token: str) -> str:
    try:
        return str(jwt.get_unverified_header(token).get("kid", ""))
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise BadToken(NOT_OURS) from None


def _read(token: str, key: SigningKey, algorithm: str, kind: type[Claims]) -> Claims:
    """The signature first; the claims are judged by our own clock, which tests and simulations hold."""
    try:
        return msgspec.json.decode(jwt.api_jws.decode(token, key, algorithms=[algorithm]), type=kind)
    # Not chained and not quoted: a token is a secret, also a bad one. Deeply nested JSON is bad like any other.
    except (jwt.PyJWTError, msgspec.MsgspecError, ValueError, RecursionError):
        raise BadToken(NOT_OURS) from None


def _judged(claims: _Own | _Theirs, audience: str, now: datetime) -> Holder:
    seconds, leeway = now.timestamp(), LEEWAY.total_seconds()
    if audience not in ([claims.aud] if isinstance(claims.aud, str) else claims.aud):
        raise BadToken("The token is for another audience.")
    if claims.exp <= seconds - leeway:
        raise BadToken("The token has expired.")
    if max(claims.iat, claims.nbf) > seconds + leeway:
        raise BadToken("The token is from the future.")
    if not 0 < len(claims.sub) <= LONGEST_ID or any(unicodedata.category(c) in ("Cc", "Cs") for c in claims.sub):
        raise BadToken("The token names nobody.")
    begins_at = max(claims.iat, claims.nbf) - leeway
    return Holder(user=UserId(claims.sub), ends_at=claims.exp + leeway, begins_at=begins_at)


# Tokens whose signature was verified before: a user's next requests bring the same one.

MOST_BYTES = 16_000_000
"""About 20,000 tokens. They last for a quarter of an hour; the one that was used least lately leaves first."""
HOLDER_BYTES = 600
"""Measured with tracemalloc; the token's text comes on top."""


@dataclass(slots=True)
class VerifiedTokens:
    """For one event loop. Only tokens that were good are kept, each until it ends."""

    hits: Hits
    size: int = 0
    _holders: "OrderedDict[str, Holder]" = field(default_factory=OrderedDict, repr=False)

    def holder(self, token: str, now: datetime) -> Holder | None:
        if (found := self._holders.get(token)) is None:
            self.hits.missed.inc()
            return None
        # As when it was verified: a clock that was set back makes a token one of the future.
        if not found.begins_at <= now.timestamp() < found.ends_at:
            self._forget(token)
            self.hits.missed.inc()
            return None
        self._holders.move_to_end(token)
        self.hits.hit.inc()
        return found

    def keep(self, token: str, holder: Holder) -> None:
        self._forget(token)
        self._holders[token] = holder
        self.size += HOLDER_BYTES + len(token)
        while self.size > MOST_BYTES:
            self._forget(next(iter(self._holders)))

    def _forget(self, token: str) -> None:
        if self._holders.pop(token, None) is not None:
            self.size -= HOLDER_BYTES + len(token)
