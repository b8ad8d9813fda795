"""`--insecure-dev` mode: local requests need no key and name their own user."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.api.auth.identity import Identity
from notifier.api.auth.scopes import Caller, Scope
from notifier.api.auth.tokens import Holder
from notifier.domain.errors import BadToken, Forbidden
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import fault

LETS_IN = (
    "INSECURE: whoever asks at this machine is let in without a key, as any service and any person."
    " It is for development alone."
)
LASTS = timedelta(days=1)
"""Lifetime of the credentials of a `User` header. An open stream ends with them."""

ANYBODY = Caller(key="insecure-dev", name="of nobody", scopes=frozenset(Scope))


@dataclass(frozen=True, slots=True)
class Insecure:
    """Identity for requests from this machine that were not made by a foreign page.

    Requests that carry a key or a token are authenticated with it.
    """

    identity: Identity

    async def person(self, authorization: str | None, now: datetime) -> Holder:
        """Return user `ada` for the header `User ada`. Raises the same errors as Identity."""
        if (name := _said(authorization)) is None:
            return await self.identity.person(authorization, now)
        if why := fault(name):
            raise BadToken(f"The name {why}.")
        return Holder(user=UserId(name), ends_at=(now + LASTS).timestamp())

    async def service(self, authorization: str | None, now: datetime) -> Caller:
        """Return a caller with every scope if there is no header. Raises the same errors as Identity."""
        if authorization is None:
            return ANYBODY
        if _said(authorization) is not None:
            raise Forbidden("This is for services: leave the person's name out.")
        return await self.identity.service(authorization, now)


def _said(authorization: str | None) -> str | None:
    scheme, _, name = (authorization or "").partition(" ")
    return name.strip() if scheme.lower() == "user" else None
