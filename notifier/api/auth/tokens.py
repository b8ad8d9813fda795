"""User tokens: JWTs signed by this service or by the configured issuer."""

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

from notifier.api.auth.issuer_keys import FetchedKeys, FixedKey, Keyring, PublicKey, fetcher, public_key
from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.config import Issuer, Settings, variable
from notifier.domain.errors import BadSetting, BadToken
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import MAX_ID_LENGTH
from notifier.metrics import CacheCounters, Metrics

ALGORITHM = "HS256"
AUDIENCE = "notifier"
DEFAULT_LIFETIME = timedelta(minutes=15)
LEEWAY = timedelta(seconds=30)
"""Tolerated difference between the clocks of the signer and this process."""
INVALID_TOKEN = "The token is malformed, or its signature is not accepted."

_MAX_TIMESTAMP = 2**40
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=_MAX_TIMESTAMP)]
_Timestamp = _Seconds | Annotated[float, msgspec.Meta(ge=0, le=_MAX_TIMESTAMP)]
"""RFC 7519 allows fractions of a second, which some issuers send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHolder:
    """The user of a valid token, and when the token is valid."""

    user: UserId
    ends_at: float
    """Unix time in seconds from which the token is rejected."""
    begins_at: float = 0.0
    """Unix time in seconds before which the token is rejected."""
    kid: str = ""
    """Id of the issuer's key that the token names, or empty."""
    key: PublicKey | None = None
    """The issuer's key that signed the token; None if this service signed it."""

    def is_valid_at(self, now: datetime) -> bool:
        return self.begins_at <= now.timestamp() < self.ends_at


class TokenVerifier(Protocol):
    async def holder(self, token: str, now: datetime) -> TokenHolder:
        """Verify a token, and return its user. Raises BadToken, and IssuerUnavailable if the keys cannot be fetched."""
        ...

    async def trusts(self, holder: TokenHolder) -> bool:
        """Return whether the key that signed the holder's token is still valid. Raises IssuerUnavailable."""
        ...


class _OwnClaims(msgspec.Struct, omit_defaults=True):
    sub: str
    aud: str
    exp: _Seconds
    iat: _Seconds
    nbf: _Seconds = 0


class _IssuerClaims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: _Timestamp
    iat: _Timestamp = 0
    nbf: _Timestamp = 0


Claims = TypeVar("Claims", _OwnClaims, _IssuerClaims)
VerificationKey = jwt.PyJWK | RSAPublicKey | Ed25519PublicKey
"""This service's secret, or a public key of the issuer."""


@dataclass(frozen=True, slots=True)
class OwnTokenVerifier:
    secret: jwt.PyJWK = field(repr=False)

    @classmethod
    def of(cls, keys: InstallationKeys) -> Self:
        """Prepare the key once. PyJWT would inspect a plain secret for each token: half of a verification's time."""
        secret = urlsafe_b64encode(keys.secret.encode()).decode()
        return cls(jwt.PyJWK({"kty": "oct", "k": secret}, algorithm=ALGORITHM))

    async def holder(self, token: str, now: datetime) -> TokenHolder:
        return _checked_holder(_verified_claims(token, self.secret, ALGORITHM, _OwnClaims), AUDIENCE, now)

    async def trusts(self, holder: TokenHolder) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerTokenVerifier:
    issuer: str
    audience: str
    keyring: Keyring

    async def holder(self, token: str, now: datetime) -> TokenHolder:
        kid = _kid(token)
        key = await self.keyring.key(kid)
        if key is None:
            raise BadToken(INVALID_TOKEN)
        claims = _verified_claims(token, key.key, key.algorithm, _IssuerClaims)
        if claims.iss != self.issuer:
            raise BadToken("The token is from another issuer.")
        return replace(_checked_holder(claims, self.audience, now), kid=kid, key=key)

    async def trusts(self, holder: TokenHolder) -> bool:
        return await self.keyring.key(holder.kid) == holder.key


def issue_token(keys: InstallationKeys, user: UserId, now: datetime, lifetime: timedelta = DEFAULT_LIFETIME) -> str:
    claims = _OwnClaims(sub=user, aud=AUDIENCE, exp=int((now + lifetime).timestamp()), iat=int(now.timestamp()))
    return jwt.encode(msgspec.to_builtins(claims), keys.secret, algorithm=ALGORITHM)


def build_token_verifier(settings: Settings, keys: InstallationKeys, metrics: Metrics) -> TokenVerifier:
    """Build the verifier for the settings without connecting to the issuer. Raises BadSetting."""
    issuer = settings.issuer
    if not issuer.name:
        return OwnTokenVerifier.of(keys)
    count_outage = metrics.outages.labels("issuer").inc
    keyring = FetchedKeys(fetcher(issuer.jwks), count_outage) if issuer.jwks else FixedKey(read_issuer_key(issuer))
    return IssuerTokenVerifier(issuer=issuer.name, audience=issuer.audience, keyring=keyring)


def read_issuer_key(issuer: Issuer) -> PublicKey:
    """Raises BadSetting."""
    try:
        return public_key(Path(issuer.key).read_bytes())
    except (OSError, ValueError) as error:
        raise BadSetting(f"{variable('issuer', 'key')} is {issuer.key!r}: {error}.") from error


def _kid(token: str) -> str:
    try:
        return str(jwt.get_unverified_header(token).get("kid", ""))
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise BadToken(INVALID_TOKEN) from None


def _verified_claims(token: str, key: VerificationKey, algorithm: str, claims_type: type[Claims]) -> Claims:
    """Verify the signature, and return the claims. Raises BadToken.

    `_checked_holder` checks the times: PyJWT would use the system's clock.
    """
    try:
        return msgspec.json.decode(jwt.api_jws.decode(token, key, algorithms=[algorithm]), type=claims_type)
    # Not chained and not quoted: even an invalid token may be a secret. Deeply nested JSON raises RecursionError.
    except (jwt.PyJWTError, msgspec.MsgspecError, ValueError, RecursionError):
        raise BadToken(INVALID_TOKEN) from None


def _checked_holder(claims: _OwnClaims | _IssuerClaims, audience: str, now: datetime) -> TokenHolder:
    now_seconds, leeway = now.timestamp(), LEEWAY.total_seconds()
    if audience not in ([claims.aud] if isinstance(claims.aud, str) else claims.aud):
        raise BadToken("The token is for another audience.")
    if claims.exp <= now_seconds - leeway:
        raise BadToken("The token has expired.")
    if max(claims.iat, claims.nbf) > now_seconds + leeway:
        raise BadToken("The token is from the future.")
    if not 0 < len(claims.sub) <= MAX_ID_LENGTH or any(unicodedata.category(c) in ("Cc", "Cs") for c in claims.sub):
        raise BadToken("The token has no valid subject.")
    begins_at = max(claims.iat, claims.nbf) - leeway
    return TokenHolder(user=UserId(claims.sub), ends_at=claims.exp + leeway, begins_at=begins_at)


# Cache of verified tokens, because a user's next requests send the same token.

MAX_CACHE_BYTES = 16_000_000
"""Memory of the cache: about 20,000 tokens that this service signed."""
HOLDER_BYTES = 600
"""Bytes of memory that a cached token takes besides its text, measured with tracemalloc."""


@dataclass(slots=True)
class VerifiedTokens:
    """LRU cache of verified tokens. One instance per event loop."""

    stats: CacheCounters
    used_bytes: int = 0
    _holders: "OrderedDict[str, TokenHolder]" = field(default_factory=OrderedDict, repr=False)

    def holder(self, token: str, now: datetime) -> TokenHolder | None:
        if (cached := self._holders.get(token)) is None:
            self.stats.misses.inc()
            return None
        # Check both bounds again: after the clock is set back, a token may not be valid yet.
        if not cached.is_valid_at(now):
            self._forget(token)
            self.stats.misses.inc()
            return None
        self._holders.move_to_end(token)
        self.stats.hits.inc()
        return cached

    def contains(self, token: str, now: datetime) -> bool:
        """Return whether `holder` would find the token. Changes and counts nothing."""
        cached = self._holders.get(token)
        return cached is not None and cached.is_valid_at(now)

    def remember(self, token: str, holder: TokenHolder) -> None:
        self._forget(token)
        self._holders[token] = holder
        self.used_bytes += HOLDER_BYTES + len(token)
        while self.used_bytes > MAX_CACHE_BYTES:
            self._forget(next(iter(self._holders)))

    def _forget(self, token: str) -> None:
        if self._holders.pop(token, None) is not None:
            self.used_bytes -= HOLDER_BYTES + len(token)
