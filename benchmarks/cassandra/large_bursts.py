"""Makes rows of bursts for a share of every range, and measures large bursts."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.large_burst_speed_and_recovery import FOLLOWERS, large_burst, last_row
from benchmarks.fanout.measured_notifier import staged
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_flags
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Subject, UserId

SUBJECT = Subject(Kind.MENTION, UserId("nova"))
BITMAP_COUNT = 8
"""Number of different bitmaps. The shards use them in turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticBursts:
    shards: range
    share: float
    """Share of a range's members that a burst reaches."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def rows(self, opened_at: datetime) -> list[InboxRows]:
        """Return the rows of the next burst, shard by shard."""
        key = BurstKey(SUBJECT, next(self._numbers))
        bitmaps = [self._bits() for _ in range(min(BITMAP_COUNT, len(self.shards)))]
        return [
            cut_inbox_rows(bitmaps[shard % len(bitmaps)], burst=key, opened_at=opened_at, tier=Tier.P1, shard=shard)
            for shard in self.shards
        ]

    def _bits(self) -> Bits:
        return from_flags(self._random.random(SHARD_MEMBERS) < self.share)


def single(rows: InboxRows) -> Iterator[InboxRow]:
    """Yield each row as a reader gets it."""
    for members in rows.members:
        yield InboxRow(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, members=members)


def first(rows: Sequence[InboxRows], deliveries: int) -> list[InboxRows]:
    """Return the first rows that reach this many members, the last row whole. Slow writers get only these."""
    rows_taken: list[InboxRows] = []
    left = deliveries
    for group in rows:
        ranges, reached = 0, 0
        for row in single(group):
            if reached >= left:
                break
            ranges, reached = ranges + 1, reached + len(row.offsets())
        if ranges:
            rows_taken.append(
                replace(group, ranges=group.ranges[:ranges], members=group.members[:ranges], delivery_count=reached)
            )
        left -= reached
    return rows_taken


# One mention of a celebrity with 200,000,000 followers, through the whole system on engines of its own.

P1_S, P2_S = 8.0, 12.0
P1_DURABLE_S, P2_DURABLE_S = 20.0, 35.0
"""Limits with Sync.BATCH, so that acknowledged writes survive a SIGKILL of the only node."""
WARM_UP_BURSTS, BURSTS, BURSTS_QUICK = 4, 4, 2
"""A cold node takes twice as long: until the fourth burst its JIT compiler uses most of a core."""
TIMEOUT_SECONDS = 180.0
REST_SECONDS = 5.0
"""Pause after the last alert of a burst, in which the node finishes its flushes. In production, mentions with so many
followers do not follow each other closely."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    return _bursts(folder, Sync.PERIODIC, "", (P1_S, P2_S), quick=quick, tell=tell)


def durable(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    return _bursts(folder, Sync.BATCH, "_durable", (P1_DURABLE_S, P2_DURABLE_S), quick=quick, tell=tell)


def _bursts(
    folder: Path, sync: Sync, suffix: str, limits: tuple[float, float], *, quick: bool, tell: Callable[[str], None]
) -> list[Figure]:
    world = World(universe=FOLLOWERS, followers=FOLLOWERS, celebrities=1, seed=1)
    with staged(folder, world, tell=tell, profile="cluster", sync=sync, collapse="PT1S", refill="1") as stage:
        tell(f"loaded after {stage.loaded_s:.0f} s")
        for number in range(WARM_UP_BURSTS):
            tell(f"warm-up: mention {number + 1} of {WARM_UP_BURSTS}")
            large_burst(stage, TIMEOUT_SECONDS)
        progress_rows = []
        for number in range(BURSTS_QUICK if quick else BURSTS):
            stage.await_idle(TIMEOUT_SECONDS)
            time.sleep(REST_SECONDS)
            tell(f"mention {number + 1}, {FOLLOWERS:,} followers")
            progress_rows.append(large_burst(stage, TIMEOUT_SECONDS))
    return [
        last_row(f"burst_200m_p1{suffix}_s", progress_rows, Tier.P1, limits[0]),
        last_row(f"burst_200m_p2{suffix}_s", progress_rows, Tier.P2, limits[1]),
    ]
