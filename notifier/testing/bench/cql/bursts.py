"""Rows of bursts to a part of every block, made without a world: what is measured is how they are written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count

import numpy as np

from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_MEMBERS, Bits, from_flags
from notifier.domain.block import THRESHOLD, Rows, cut
from notifier.domain.subject import BurstKey, Kind, Subject, UserId

SUBJECT = Subject(Kind.MENTION, UserId("nova"))
NO_BLOCKS = BLOCK_MEMBERS + 1
"""A threshold that no block reaches: every member gets a row."""
DIFFERENT = 8
"""Bitmaps, which the shards share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    shards: range
    share: float
    """Of a block's members."""
    threshold: int = THRESHOLD
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def rows(self, opened_at: datetime) -> list[Rows]:
        """Of the next burst."""
        key = BurstKey(SUBJECT, next(self._numbers))
        bitmaps = [self._bits() for _ in range(min(DIFFERENT, len(self.shards)))]
        return [
            cut(
                bitmaps[shard % len(bitmaps)],
                burst=key,
                opened_at=opened_at,
                tier=Tier.P1,
                shard=shard,
                threshold=self.threshold,
            )
            for shard in self.shards
        ]

    def _bits(self) -> Bits:
        return from_flags(self._random.random(SHARD_MEMBERS) < self.share)


def first(rows: Sequence[Rows], members: int) -> list[Rows]:
    """The first so many member rows: whoever writes slowly isn't waited for."""
    found: list[Rows] = []
    for one in rows:
        some = one.members[: members - sum(len(each.members) for each in found)]
        found += [replace(one, members=some, deliveries=len(some))] if len(some) else []
    return found
