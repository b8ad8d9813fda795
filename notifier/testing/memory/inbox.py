"""The inbox in memory: the same rows under the same key as in every store."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS
from notifier.domain.block import BLOCK_SLOT, Row, Rows, window_of
from notifier.domain.burst import RETENTION
from notifier.domain.subject import BurstKey
from notifier.testing.memory.seals import MemorySeals

Partition = tuple[int, int]
"""A block and an inbox window."""

Key = tuple[int, datetime, BurstKey, Tier]
"""Within the partition: slot, opening, burst, tier."""


class MemoryInbox:
    def __init__(self, seals: MemorySeals) -> None:
        self._seals = seals
        self._partitions: dict[Partition, dict[Key, Row]] = {}

    def write(self, rows: Sequence[Rows], going: Callable[[], None] = lambda: None) -> None:
        for one in rows:
            going()
            for index, block in enumerate(one.blocks.tolist()):
                self._put(one, block, BLOCK_SLOT, one.bitmap(index))
            for member in one.members.tolist():
                self._put(one, member // BLOCK_MEMBERS, member % BLOCK_MEMBERS, None)

    def sweep(self, now: datetime, limit: int) -> int:
        expired = sorted(p for p in self._partitions if p[1] < window_of(now - RETENTION))
        swept = 0
        while expired and swept < limit:
            swept += len(self._partitions.pop(expired.pop(0)))
        return swept + self._seals.sweep(now, limit - swept) if swept < limit else swept

    def in_block(self, block: int) -> Iterator[Row]:
        """In no order."""
        for (of, _), stored in self._partitions.items():
            if of == block:
                yield from stored.values()

    def stored(self) -> Iterator[tuple[int, Row]]:
        """Every row with its block."""
        for (block, _), stored in sorted(self._partitions.items()):
            yield from ((block, stored[key]) for key in sorted(stored))

    def _put(self, rows: Rows, block: int, slot: int, members: bytes | None) -> None:
        row = Row(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, slot=slot, members=members)
        partition = self._partitions.setdefault((block, window_of(rows.opened_at)), {})
        partition[slot, rows.opened_at, rows.burst, rows.tier] = row
