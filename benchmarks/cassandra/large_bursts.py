"""Measures mentions of a celebrity with 200,000,000 followers on its own engines."""

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.large_burst_speed_and_recovery import FOLLOWERS, large_burst, last_row
from benchmarks.fanout.measured_notifier import staged
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture.world import World
from notifier.domain.audience.tiers_and_member_sets import Tier

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
