"""Rows of bursts to a share of every range, made without a world: what is measured is how they are written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

import numpy as np

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_flags
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, cut
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Kind, Subject, UserId

SUBJECT = Subject(Kind.MENTION, UserId("nova"))
DIFFERENT = 8
"""Bitmaps, which the shards share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    shards: range
    share: float
    """Of a range's members."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def rows(self, opened_at: datetime) -> list[InboxRows]:
        """Return the rows of the next burst, shard by shard."""
        key = BurstKey(SUBJECT, next(self._numbers))
        bitmaps = [self._bits() for _ in range(min(DIFFERENT, len(self.shards)))]
        return [
            cut(bitmaps[shard % len(bitmaps)], burst=key, opened_at=opened_at, tier=Tier.P1, shard=shard)
            for shard in self.shards
        ]

    def _bits(self) -> Bits:
        return from_flags(self._random.random(SHARD_MEMBERS) < self.share)


def single(rows: InboxRows) -> Iterator[InboxRow]:
    """Return each row as a reader finds it."""
    for members in rows.members:
        yield InboxRow(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, members=members)


def first(rows: Sequence[InboxRows], deliveries: int) -> list[InboxRows]:
    """Return the first rows that reach so many members, the last row whole. A slow writer gets no more than these."""
    found: list[InboxRows] = []
    left = deliveries
    for each in rows:
        some, reached = 0, 0
        for row in single(each):
            if reached >= left:
                break
            some, reached = some + 1, reached + len(row.places())
        if some:
            found.append(replace(each, ranges=each.ranges[:some], members=each.members[:some], deliveries=reached))
        left -= reached
    return found
