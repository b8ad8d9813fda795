"""Scopes: what a service may be let in for, and who it is that was."""

from dataclasses import dataclass
from enum import StrEnum

from notifier.domain.errors import Forbidden


class Scope(StrEnum):
    """One for each of the services that come: a key that leaks opens what its service needed."""

    EVENTS = "events"
    """Mentions: to bring them, to try them, and to ask what became of them."""
    FOLLOWS = "follows"
    """Who follows whom, and who blocks whom."""
    ACCOUNTS = "accounts"
    """What an account is: verified, a VIP, deleted."""
    ACTIVITY = "activity"
    """Who was around elsewhere."""
    OPERATE = "operate"
    """What operators watch."""
    METRICS = "read-metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A service that was let in."""

    key: str
    """The id of its key."""
    name: str
    scopes: frozenset[Scope]

    def require(self, *wanted: Scope) -> None:
        """Any of them is enough. Raises Forbidden."""
        if self.scopes.isdisjoint(wanted):
            words = " or ".join(wanted)
            raise Forbidden(f"The key {self.name} hasn't the scope {words}; it has {', '.join(sorted(self.scopes))}.")


ALL = Caller(key="secret.json", name="of secret.json", scopes=frozenset(Scope))
"""Whoever has the one key that is made with the secret."""
