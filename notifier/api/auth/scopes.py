"""Scopes of service keys, and the authenticated service."""

from dataclasses import dataclass
from enum import StrEnum

from notifier.domain.errors import Forbidden


class Scope(StrEnum):
    """Permissions, one per kind of service. A leaked key grants only the access that its service needed."""

    EVENTS = "events"
    """Send and preview mentions, report deleted and edited tweets, and query the status of events."""
    FOLLOWS = "follows"
    """Report follows, unfollows, approvals, blocks and unblocks."""
    ACCOUNTS = "accounts"
    """Report account changes: flags (verified, VIP, deleted), protection and erasure."""
    ACTIVITY = "activity"
    """Report that a user was active elsewhere on the platform."""
    OPERATE = "operate"
    """Read the system overview."""
    METRICS = "read-metrics"
    """Read `/metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated service."""

    key_id: str
    """Id of the service's key."""
    name: str
    """Name of the service, as error messages show it after `The key`."""
    scopes: frozenset[Scope]

    def require(self, *accepted: Scope) -> None:
        """Require at least one of the scopes. Raises Forbidden."""
        if self.scopes.isdisjoint(accepted):
            names = " or ".join(accepted)
            raise Forbidden(f"The key {self.name} lacks the scope {names}; it has {', '.join(sorted(self.scopes))}.")


MAIN_KEY_CALLER = Caller(key_id="secret.json", name="of secret.json", scopes=frozenset(Scope))
"""The service that uses the main service key. It has every scope."""
