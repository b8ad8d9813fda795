"""`--insecure-dev` mode: local requests need no key or token, and choose their user."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.api.auth.identity import Authenticator
from notifier.api.auth.scopes import Caller, Scope
from notifier.api.auth.tokens import TokenHolder
from notifier.domain.errors import BadToken, Forbidden
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import id_problem

INSECURE_WARNING = (
    "INSECURE: every local request is accepted without a key, as any service and any user. Use this "
    "for development only."
)
DEV_TOKEN_LIFETIME = timedelta(days=1)
"""Lifetime of the identity in a header `Authorization: User ada`. An open stream ends when it expires."""

DEV_CALLER = Caller(key_id="insecure-dev", name="of --insecure-dev", scopes=frozenset(Scope))
"""The service that makes each local request without a key. It has every scope."""


@dataclass(frozen=True, slots=True)
class InsecureAuthenticator:
    """Authenticates requests from this machine that need no key or token.

    A key or a token that a request carries nevertheless is checked as usual, by `authenticator`.
    """

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
