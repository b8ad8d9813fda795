"""The inbox, as the write path knows it: rows by range of members, no person named."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows
from notifier.domain.audience.snapshot import Seal, SnapshotCounts, TierSnapshot
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId


class InboxStore(Protocol):
    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        """Durable when it returns; the same rows again change nothing.

        Short transactions, so that a tier in a hurry never waits long behind bulk; `going` is called between them, and
        may raise. Raises StoreUnavailable or Full. Then, too, some rows may have been written.
        """
        ...

    def sweep(self, now: datetime, limit: int) -> int:
        """Deletes up to about `limit` expired rows and seals; returns how many, 0 when none is left, and always where
        they end by themselves.
        """
        ...


# The canonical bursts and the inbox rows, as the read path knows them.


@dataclass(frozen=True, slots=True, order=True)
class InboxPosition:
    """A place in a list that is newest first: bursts are ordered by opening, then by key."""

    opened_at: datetime
    burst: BurstKey


class Timeline(Protocol):
    """Asynchronous. Raises StoreUnavailable."""

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    async def before(
        self,
        subjects: Collection[Subject],
        place: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        """The newest bursts of these subjects behind the place, newest first, none left out: all of them, or the public
        ones and those restricted to the followers of one of the authors, as if there were no others; and only those
        that opened at or after `since`, which costs as much as there are.

        Fewer than `limit` means that there are no more within the retention. This alone makes a page right.
        """
        ...

    async def rows(
        self, member: Member, subjects: Collection[Subject], place: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        """The newest rows of these subjects that reach the member behind the place, newest first.

        The cost follows the number of subjects and of their bursts, whoever else shares the partition. Rows never prove
        absence.
        """
        ...


# The seals: what each burst's audience was in each shard, decided by whoever came first.


class Seals(Protocol):
    """Durable for a week. Raises StoreUnavailable, and Full where it writes."""

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        """Of those shards that have one. Whoever needs only a part asks for it: a large seal is 64 KiB."""
        ...

    def parts(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, TierSnapshot]: ...

    def alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]: ...

    def tallies(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, SnapshotCounts]: ...

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        """Inserts each seal if the shard has none yet; returns what stands now, the winner's, in the same order."""
        ...
