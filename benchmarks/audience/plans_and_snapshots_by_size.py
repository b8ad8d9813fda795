"""Measures plans and audience snapshots in universes of different sizes, for many followers and few."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, seconds, unjudged, worst_at_most
from benchmarks.fanout.row_and_snapshot_writes import opened
from benchmarks.fanout.suite import Parts
from benchmarks.process_stats import forget_peak, peak_mb
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.config import Settings
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.devkit.check.notifier_and_engine_processes import engines
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.devkit.fixture.world_loader_and_markers import all_bitmaps, follower_counts
from notifier.domain.audience.snapshot import take_snapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, ShardSets
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.plan import make_plan
from notifier.domain.ids import BurstKey
from notifier.flow.delivery.snapshot_and_row_writer import SHARDS_PER_WRITE
from notifier.ports.audience import MemberSets
from notifier.profiles import choose

PLAN_S = 1.0
ALGEBRA_S, ALGEBRA_FEW_S = 2.0, 1.0
GROWTH_MB = 15.0
"""The sets of 64 shards, which are read together, take 7 MB, and a connection keeps 2 MB. A bitmap per shard of the
largest universe would take 125 MB."""
GROWTH_ON_CASSANDRA_MB = 30.0
"""The responses for 64 shards are in memory beside the bitmaps while they are decoded: about 20 MB, measured."""
ROUNDS, ROUNDS_QUICK = 3, 1
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UniverseCase:
    """A number of followers and a size of the universe, both in millions."""

    followers: int
    universe: int

    @property
    def name(self) -> str:
        return f"{self.followers}m_of_{self.universe}m"

    @property
    def world(self) -> World:
        return World(universe=self.universe * MILLION, followers=self.followers * MILLION, celebrities=1, seed=1)


GROWING_CASES = tuple(UniverseCase(followers=n, universe=n) for n in (10, 50, 100, 200))
"""From the smallest to the largest audience: time grows with the audience, memory doesn't."""
WIDE_CASES = tuple(UniverseCase(followers=200, universe=n) for n in (500, 1_000))
FEW_FOLLOWERS_CASES = tuple(UniverseCase(followers=1, universe=n) for n in (200, 1_000))
CASES = (*GROWING_CASES, *WIDE_CASES, *FEW_FOLLOWERS_CASES)
CASES_QUICK = (*GROWING_CASES[:2], FEW_FOLLOWERS_CASES[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class UniverseResult:
    """Measurements of one case."""

    case: UniverseCase
    shards: int
    planned: Sequence[float]
    """Seconds of each round."""
    taken: Sequence[Cost]
    """Cost of all shards, from the store's bytes to audience snapshots."""
    algebra: Sequence[Cost]
    """The part of that cost that isn't reading."""
    peak: float
    """MB of this process."""

    @property
    def few(self) -> bool:
        return self.case.followers * 100 < self.case.universe


def run(folder: Path, *, quick: bool, tell: Callable[[str], None], profile: str = "embedded") -> list[Figure]:
    """Measure one world at a time.

    Each is in its own store, which is deleted afterwards: the largest has a gigabyte.
    """
    results = []
    for case in CASES_QUICK if quick else CASES:
        tell(f"{case.followers:,} million followers among {case.universe:,} million users")
        results.append(measure_case(folder / case.name, case, ROUNDS_QUICK if quick else ROUNDS, profile))
        shutil.rmtree(folder / case.name)
    return [*(figure for result in results for figure in figures(result)), _growth(results, profile)]


def measure_case(folder: Path, case: UniverseCase, rounds: int, profile: str = "embedded") -> UniverseResult:
    folder.mkdir()
    read = partial(Settings.read, data=folder, profile=profile)  # after the engines have their addresses
    with engines(folder, profile, Sync.PERIODIC), closing(choose(read())) as chosen:
        chosen.migrate()
        sets = chosen.ports().sets
        crowd = WorldBitmaps(case.world)
        sets.put_follower_counts({case.world.subject(0): follower_counts(crowd, 0)})
        sets.put(all_bitmaps(crowd))
        return _measured(sets, case, rounds)


def _measured(sets: MemberSets, case: UniverseCase, rounds: int) -> UniverseResult:
    burst = opened(BurstKey(case.world.subject(0), 1), SystemClock().now())
    forget_peak()
    planned, taken, algebra = list[float](), list[Cost](), list[Cost]()
    for _ in range(rounds):
        planned.append(seconds(partial(_plan, sets, burst)))
        divided = list[Cost]()
        taken.append(cost(partial(_take_all_snapshots, sets, burst, case.world, divided)))
        algebra.append(sum(divided, start=Cost(seconds=0.0, processor=0.0)))
    return UniverseResult(
        case=case,
        shards=case.world.shards,
        planned=planned,
        taken=taken,
        algebra=algebra,
        peak=peak_mb(),
    )


def _plan(sets: MemberSets, burst: Burst) -> None:
    """Plan the burst down to the last slice."""
    made = make_plan(burst, sets.follower_counts(burst.key.subject))
    assert sum(slice_.width for slice_ in made.slices()) >= made.shard_count


def _take_all_snapshots(sets: MemberSets, burst: Burst, world: World, divided: list[Cost]) -> None:
    """Compute the snapshots as workers do, 64 shards at a time. Nothing of the previous shards stays in memory."""
    reached = 0
    for first in range(0, world.shards, SHARDS_PER_WRITE):
        shards = range(first, min(first + SHARDS_PER_WRITE, world.shards))
        live = sets.live(burst.key.subject, shards)
        counts: list[int] = []
        divided.append(cost(partial(_take_snapshots, burst, shards, live, counts)))
        reached += sum(counts)
    if reached != world.followers:
        raise AssertionError(f"found {reached:,} of {world.followers:,} followers")


def _take_snapshots(burst: Burst, shards: Sequence[int], live: Sequence[ShardSets], counts: list[int]) -> None:
    for shard, shard_sets in zip(shards, live, strict=True):
        tally = take_snapshot(burst, shard, shard_sets).counts()
        counts.append(sum(tally.reached[tier] for tier in TIERS) + tally.dormant + tally.suppressed)


def figures(result: UniverseResult) -> list[Figure]:
    inside = f"{{{result.case.name}}}"
    limit = ALGEBRA_FEW_S if result.few else ALGEBRA_S
    whole = Spread.of([run_cost.seconds for run_cost in result.taken])
    return [
        worst_at_most(f"plan_s{inside}", result.planned, PLAN_S),
        worst_at_most(
            f"audience_algebra_s{inside}",
            [run_cost.processor for run_cost in result.algebra],
            limit,
            detail=f"CPU time for {result.shards:,} shards.",
        ),
        unjudged(f"audience_s{inside}", whole, result.shards, "including reads from the store"),
        unjudged(f"audience_mb{inside}", Spread.of([result.peak], "MB"), result.shards, "peak memory of the process"),
    ]


def _growth(results: Sequence[UniverseResult], profile: str) -> Figure:
    """Compare the memory of every audience with that of the smallest one."""
    least, most = results[0].peak, max(result.peak for result in results)
    held = ", ".join(f"{result.peak:.1f} for {result.case.name}" for result in results)
    limit = GROWTH_ON_CASSANDRA_MB if profile == "cluster" else GROWTH_MB
    finding = at_most("audience_mb_independent", most - least, limit, unit="MB", n=len(results), detail=held)
    return Figure(finding=finding, ours=Spread.of([result.peak for result in results], "MB"))


FIGURES_OF_CASE = ("plan_s", "audience_algebra_s", "audience_s", "audience_mb")
FIGURES = (
    *(f"{figure}{{{case.name}}}" for case in CASES for figure in FIGURES_OF_CASE),
    "audience_mb_independent",
)
PARTS: Parts = {"universe": (run, FIGURES)}
OF_CLUSTER: Parts = {"universe": (partial(run, profile="cluster"), FIGURES)}
