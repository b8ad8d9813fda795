"""Authenticate users by token, and services by key.

In `--insecure-dev` mode local requests need neither. The main service key is compared in constant time. Other service
keys are looked up by a keyed hash.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest

from notifier.api.auth.service_and_installation_keys import (
    MAIN_KEY_CALLER,
    Caller,
    InstallationKeys,
    Scope,
    ServiceKeyCache,
    ServiceKeyFile,
    installation_keys,
    load_or_create_keys,
)
from notifier.api.auth.tokens import TokenHolder, TokenVerifier, VerifiedTokens, build_token_verifier, issue_token
from notifier.config import Settings
from notifier.domain.errors import BadToken, Forbidden, IssuerUnavailable
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import id_problem
from notifier.metrics import CacheCounters, Metrics

__all__ = ["Authenticator", "InstallationKeys", "installation_keys", "issue_token", "load_or_create_keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    keys: InstallationKeys = field(repr=False)
    token_verifier: TokenVerifier
    service_keys: ServiceKeyCache
    verified_tokens: VerifiedTokens

    async def user(self, authorization: str | None, now: datetime) -> TokenHolder:
        """Return the user whose token the header contains.

        Raises BadToken, IssuerUnavailable, and Forbidden for a service key.
        """
        token = _bearer(authorization)
        holder = self.verified_tokens.holder(token, now)
        if holder is not None and await self.token_verifier.trusts(holder):
            return holder
        holder = await self._verified_user(token, now)
        self.verified_tokens.remember(token, holder)
        return holder

    def has_verified(self, authorization: str | None, now: datetime) -> bool:
        """Return whether the header's token is in the cache of verified tokens, and is valid now."""
        with suppress(BadToken):
            return self.verified_tokens.contains(_bearer(authorization), now)
        return False

    async def _verified_user(self, token: str, now: datetime) -> TokenHolder:
        if self._service_with_key(token):
            raise Forbidden("A service key is for service routes; an inbox needs a user token.")
        return await self.token_verifier.holder(token, now)

    async def service_caller(self, authorization: str | None, now: datetime) -> Caller:
        """Return the service whose key the header contains. Raises BadToken, and Forbidden for a user's token."""
        token = _bearer(authorization)
        if caller := self._service_with_key(token):
            return caller
        try:
            await self.token_verifier.holder(token, now)
        except IssuerUnavailable:  # fails closed: the token may be a user's, but is certainly no service key
            raise BadToken("The token is not a service key.") from None
        raise Forbidden("A user token is for the user's own inbox; this route needs a service key.")

    def _service_with_key(self, token: str) -> Caller | None:
        return (
            MAIN_KEY_CALLER
            if _is_equal_in_constant_time(token, self.keys.service_key)
            else self.service_keys.caller(token)
        )


def build_authenticator(settings: Settings, keys: InstallationKeys, metrics: Metrics) -> Authenticator:
    """Build the authenticator without connecting to the issuer. Raises BadSetting."""
    service_keys = ServiceKeyCache(ServiceKeyFile.of(settings, keys))
    verified_tokens = VerifiedTokens(CacheCounters(metrics.inbox_cache, "tokens"))
    return Authenticator(
        keys=keys,
        token_verifier=build_token_verifier(settings, keys, metrics),
        service_keys=service_keys,
        verified_tokens=verified_tokens,
    )


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise BadToken("The bearer token is missing.")
    return token.strip()


def _is_equal_in_constant_time(actual: str, expected: str) -> bool:
    return compare_digest(actual.encode(errors="replace"), expected.encode())


# `--insecure-dev` mode: local requests need no key or token, and choose their user.

INSECURE_WARNING = (
    "INSECURE: local requests need no key, and can act as any service and any user. Use this for development only."
)
DEV_TOKEN_LIFETIME = timedelta(days=1)
"""A stream that was opened with `Authorization: User ada` ends after this time."""

DEV_CALLER = Caller(key_id="insecure-dev", name="of --insecure-dev", scopes=frozenset(Scope))
"""Caller of a local request without an `Authorization` header."""


@dataclass(frozen=True, slots=True)
class InsecureAuthenticator:
    """Authenticates local requests, which need no key or token. A request's key or token is still checked."""

    authenticator: Authenticator

    async def user(self, authorization: str | None, now: datetime) -> TokenHolder:
        """Return user `ada` for the header `Authorization: User ada`. Raises the same errors as Authenticator."""
        if (name := _dev_user(authorization)) is None:
            return await self.authenticator.user(authorization, now)
        if fault := id_problem(name):
            raise BadToken(f"The user name {fault}.")
        return TokenHolder(user=UserId(name), ends_at=(now + DEV_TOKEN_LIFETIME).timestamp())

    async def service_caller(self, authorization: str | None, now: datetime) -> Caller:
        """Return a caller with every scope if there is no `Authorization`. Raises the same errors as Authenticator."""
        if authorization is None:
            return DEV_CALLER
        if _dev_user(authorization) is not None:
            raise Forbidden("This route is for services: remove the user name from the header.")
        return await self.authenticator.service_caller(authorization, now)


def _dev_user(authorization: str | None) -> str | None:
    scheme, _, name = (authorization or "").partition(" ")
    return name.strip() if scheme.lower() == "user" else None
