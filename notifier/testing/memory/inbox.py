"""The inbox in memory: the same rows under the same key as in every store."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, window_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.ids import BurstKey
from notifier.testing.memory.seals import MemorySeals

Partition = tuple[int, int]
"""A range and an inbox window."""

Key = tuple[BurstKey, Tier]
"""Within the partition."""


class MemoryInbox:
    def __init__(self, seals: MemorySeals) -> None:
        self._seals = seals
        self._partitions: dict[Partition, dict[Key, InboxRow]] = {}

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        for one in rows:
            going()
            for member_range, members in zip(one.ranges, one.members, strict=True):
                row = InboxRow(burst=one.burst, opened_at=one.opened_at, tier=one.tier, members=members)
                partition = self._partitions.setdefault((member_range, window_of(one.opened_at)), {})
                partition[one.burst, one.tier] = row

    def sweep(self, now: datetime, limit: int) -> int:
        expired = sorted(p for p in self._partitions if p[1] < window_of(now - RETENTION))
        swept = 0
        while expired and swept < limit:
            swept += len(self._partitions.pop(expired.pop(0)))
        return swept + self._seals.sweep(now, limit - swept) if swept < limit else swept

    def in_range(self, member_range: int) -> Iterator[InboxRow]:
        """In no order."""
        for (of, _), stored in self._partitions.items():
            if of == member_range:
                yield from stored.values()

    def stored(self) -> Iterator[tuple[int, InboxRow]]:
        """Every row with its range."""
        for (member_range, _), stored in sorted(self._partitions.items()):
            yield from ((member_range, stored[key]) for key in sorted(stored))
