"""Authenticate users by short-lived token and services by key.

The main service key is compared in constant time, so response times reveal nothing about it. Other service keys are
looked up by a keyed hash.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hmac import compare_digest

from notifier.api.auth.scopes import SECRET_FILE_CALLER, Caller
from notifier.api.auth.service_keys import Keys, ServiceKeyCache, ServiceKeyFile, keys_of, load_or_create
from notifier.api.auth.tokens import TokenHolder, TokenVerifier, VerifiedTokens, issue_token, token_verifier
from notifier.config import Settings
from notifier.domain.errors import BadToken, Forbidden, IssuerUnavailable
from notifier.metrics import CacheHits, Metrics

__all__ = ["Authenticator", "Keys", "issue_token", "keys_of", "load_or_create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Authenticates the user or the service that makes a request."""

    keys: Keys = field(repr=False)
    tokens: TokenVerifier
    service_keys: ServiceKeyCache
    verified: VerifiedTokens

    async def user(self, authorization: str | None, now: datetime) -> TokenHolder:
        """Return the user whose token the header contains.

        Raises BadToken, IssuerUnavailable, and Forbidden for a service key, which opens no inbox.
        """
        token = _bearer(authorization)
        holder = self.verified.holder(token, now)
        if holder is not None and await self.tokens.trusts(holder):
            return holder
        holder = await self._user(token, now)
        self.verified.remember(token, holder)
        return holder

    def has_verified(self, authorization: str | None, now: datetime) -> bool:
        """Return whether the header's token was verified earlier and is still valid."""
        with suppress(BadToken):
            return self.verified.holder(_bearer(authorization), now) is not None
        return False

    async def _user(self, token: str, now: datetime) -> TokenHolder:
        if self._service_with_key(token):
            raise Forbidden("A service key is for service routes; an inbox needs a user token.")
        return await self.tokens.holder(token, now)

    async def service_caller(self, authorization: str | None, now: datetime) -> Caller:
        """Return the service whose key the header contains. The route guard checks the scopes.

        Raises BadToken, and Forbidden for a user's token.
        """
        token = _bearer(authorization)
        if caller := self._service_with_key(token):
            return caller
        try:
            await self.tokens.holder(token, now)
        except IssuerUnavailable:  # fails closed: it may be a user's token, but is certainly no service key
            raise BadToken("The token is not a service key.") from None
        raise Forbidden("A user token is for the user's own inbox; this route needs a service key.")

    def _service_with_key(self, token: str) -> Caller | None:
        return SECRET_FILE_CALLER if _is_same(token, self.keys.service_key) else self.service_keys.caller(token)


def build_authenticator(settings: Settings, keys: Keys, metrics: Metrics) -> Authenticator:
    """Build the authenticator without connecting to the issuer. Raises BadSetting."""
    service_keys = ServiceKeyCache(ServiceKeyFile.of(settings, keys))
    verified = VerifiedTokens(CacheHits(metrics.inbox_cache, "tokens"))
    return Authenticator(
        keys=keys, tokens=token_verifier(settings, keys, metrics), service_keys=service_keys, verified=verified
    )


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise BadToken("The bearer token is missing.")
    return token.strip()


def _is_same(actual: str, expected: str) -> bool:
    return compare_digest(actual.encode(errors="replace"), expected.encode())
