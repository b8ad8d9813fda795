"""Measures planning a burst to 200,000,000 followers, until every slice is read back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread, seconds, worst_at_most
from benchmarks.fanout.row_and_snapshot_writes import opened
from benchmarks.process_stats import forget_peak, peak_mb, resident_mb
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteLedger
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteMemberSets
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.delivery.plan import FollowerCounts, make_plan
from notifier.domain.ids import BurstKey, Kind, Subject, UserId

FEW_FOLLOWERS, MANY_FOLLOWERS = 1_000_000, 200_000_000
"""Numbers of followers."""
PLAN_S = 1.0
PLAN_MB = 20.0
GROWTH_MB = 5.0
"""1,526 counts and the 150 slices that are read back are less than 1 MB. Anything kept per block would be 25 MB."""
ROUNDS = 5


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell("planning for 200,000,000 followers")
    files = Files.at(folder / "planning")
    (folder / "planning").mkdir()
    files.migrate()
    before = resident_mb()
    few, many = _planned(files, "orion", FEW_FOLLOWERS), _planned(files, "nova", MANY_FOLLOWERS)
    files.close()
    return [
        worst_at_most("plan_200m_s", many.took, PLAN_S),
        _memory("plan_200m_rss_mb", many.peak - before, PLAN_MB, "rise of the peak above the start"),
        _memory(
            "plan_rss_independent_mb", many.peak - few.peak, GROWTH_MB, "rise of the peak above that for 1,000,000"
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    took: list[float]
    """Seconds of each round."""
    peak: float
    """Peak memory of this process in MB."""


def _planned(files: Files, name: str, followers: int) -> Planned:
    clock, subject = SystemClock(), Subject(Kind.MENTION, UserId(name))
    sets, ledger, bursts = SqliteMemberSets(files.core), SqliteLedger(files.core), SqliteBursts(files.core)
    counts = shard_counts(followers)
    sets.put_follower_counts({subject: FollowerCounts(total=followers, by_shard=counts)})

    def once(seq: int) -> None:
        burst = opened(BurstKey(subject, seq), clock.now())
        bursts.write([burst], [])
        planned = make_plan(burst, sets.follower_counts(subject))
        ledger.store_plans([planned])
        standings = ledger.read([burst.key])[burst.key].slice_states
        assert sum(slice_.width for slice_ in standings) >= 3 * len(counts)

    forget_peak()
    return Planned(took=[seconds(partial(once, seq)) for seq in range(1, ROUNDS + 1)], peak=peak_mb())


def _memory(name: str, grown: float, limit: float, detail: str) -> Figure:
    return Figure(finding=at_most(name, grown, limit, unit="MB", detail=detail), ours=Spread.of([grown], "MB"))


def shard_counts(followers: int) -> list[int]:
    full, remainder = divmod(followers, SHARD_MEMBERS)
    return [SHARD_MEMBERS] * full + [remainder] * bool(remainder)
