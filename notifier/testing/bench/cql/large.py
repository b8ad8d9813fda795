"""One mention of a celebrity with 200,000,000 followers, through the whole running system on engines of its own."""

import time
from collections.abc import Callable
from pathlib import Path

from notifier.domain.audience.tiers import Tier
from notifier.testing.bench.large import FOLLOWERS, large_burst, last_row
from notifier.testing.bench.rounds import Figure
from notifier.testing.bench.stage import staged
from notifier.testing.world import World
from services.cassandra.node import Sync

P1_S, P2_S = 8.0, 12.0
P1_DURABLE_S, P2_DURABLE_S = 20.0, 35.0
"""With a commit log that survives the SIGKILL of its only node."""
WARMING, BURSTS, BURSTS_QUICK = 4, 4, 2
"""A cold node takes twice as long: until the fourth, its compiler has most of a core."""
WITHIN = 180.0
RESTS_FOR = 5.0
"""Seconds, after the last alert of the burst before, in which the node puts its rows in order: it is one mention."""


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
        for number in range(WARMING):
            tell(f"warming: one mention, {number + 1} of {WARMING}")
            large_burst(stage, WITHIN)
        accounts = []
        for number in range(BURSTS_QUICK if quick else BURSTS):
            stage.rest(WITHIN)
            time.sleep(RESTS_FOR)
            tell(f"one mention, {FOLLOWERS:,} followers, {number + 1}")
            accounts.append(large_burst(stage, WITHIN))
    return [
        last_row(f"burst_200m_p1{suffix}_s", accounts, Tier.P1, limits[0]),
        last_row(f"burst_200m_p2{suffix}_s", accounts, Tier.P2, limits[1]),
    ]
