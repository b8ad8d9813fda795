"""Who is asking: people bring a short-lived token, the tweet service its key; both are checked in constant time."""

from dataclasses import dataclass, field
from datetime import datetime
from hmac import compare_digest

from notifier.api.keys import Keys, keys_of, load_or_create
from notifier.api.tokens import Holder, Tokens, issue
from notifier.domain.errors import BadToken, Forbidden, IssuerUnavailable

__all__ = ["Identity", "Keys", "issue", "keys_of", "load_or_create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    keys: Keys = field(repr=False)
    tokens: Tokens

    async def person(self, authorization: str | None, now: datetime) -> Holder:
        """Raises BadToken or IssuerUnavailable, and Forbidden for the service key: it opens nobody's inbox."""
        token = _bearer(authorization)
        if _same(token, self.keys.service_key):
            raise Forbidden("The service key is for events; an inbox takes a person's token.")
        return await self.tokens.holder(token, now)

    async def require_service(self, authorization: str | None, now: datetime) -> None:
        """Raises BadToken, and Forbidden for a person's token."""
        token = _bearer(authorization)
        if _same(token, self.keys.service_key):
            return
        try:
            await self.tokens.holder(token, now)
        except IssuerUnavailable:  # fails closed: whatever it is, the service key it is not
            raise BadToken("The token is not the service key.") from None
        raise Forbidden("A person's token is for that person's inbox; events take the service key.")


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise BadToken("There is no bearer token.")
    return token.strip()


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(errors="replace"), wanted.encode())
