"""Ports of the inbox rows and the inbox timeline."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRow, InboxRows
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId


class InboxStore(Protocol):
    """Inbox rows as slices write them. Durable, but on SQLite a power cut may undo the latest rows. Blocking."""

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        """Write the rows. Idempotent: the same rows again change nothing.

        The rows are written in small steps, so that an urgent tier does not wait long behind bulk. `on_progress` is
        called between steps and may raise. Raises StoreUnavailable or DiskFull. After any error some rows may have been
        written.
        """
        ...

    def delete_expired(self, now: datetime, limit: int) -> int:
        """Delete up to about `limit` expired rows and audience snapshots; return how many were deleted.

        Return 0 if nothing expired is left, and always for stores that expire rows themselves.
        """
        ...


# Bursts and inbox rows, as the read path reads them.


@dataclass(frozen=True, slots=True, order=True)
class InboxPosition:
    """A position in a newest-first list: bursts are ordered by opening time, then by key."""

    opened_at: datetime
    burst: BurstKey


class Timeline(Protocol):
    """Stored bursts and inbox rows, newest first. Asynchronous. Raises StoreUnavailable."""

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        """Return the newest bursts of these subjects that are older than the position, newest first, without gaps.

        With `authors`, bursts restricted to the followers of other authors are skipped as if they did not exist. With
        `since`, bursts that opened earlier are skipped, and the cost grows with the number of bursts since then.

        If it returns fewer than `limit` bursts, there are no more within the retention.
        """
        ...

    async def rows(
        self, member: Member, subjects: Collection[Subject], after: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        """Return the newest rows of these subjects that contain the member and are older than `after`, newest first.

        The cost depends on the number of subjects and of their bursts, not on other members in the same partition. A
        row may be missing although the user sees the burst.
        """
        ...
