"""One person's durable facts: follows, blocks, volume and marks; the truth that the predicate is asked with."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.visibility import Mark, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an inbox is opened with."""

    member: Member
    viewer: Viewer
    vip: bool
    """Worth remembering for other processes: VIPs open their inboxes often, and are few."""


class People(Protocol):
    """Asynchronous: the read path. Raises StoreUnavailable, and Full where it writes."""

    async def member(self, user: UserId) -> Member | None:
        """None for a user that doesn't exist or was deleted."""
        ...

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        """Everything that decides what the person sees; one's own writes are there at once.

        Of more than MOST_BLOCKERS who block the person, the first by name, and those whom the person follows.
        """
        ...

    async def expected(self, user: UserId) -> Member | None:
        """Return the member that the user's range of ids gives, where this process remembers the range.

        It reads nothing and proves nothing: the account may be deleted, or have a number of its own. `open` tells.
        """
        ...

    async def open(self, user: UserId, expected: Member | None = None) -> Facts | None:
        """`member` and then `viewer` in one call. None for a user that doesn't exist or was deleted.

        The answer doesn't depend on `expected`; with the right member the account is read beside everything else.
        """
        ...

    async def see(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        """Moves `seen_at` forward, never back, and adds the newer bursts that were shown."""
        ...

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None: ...
