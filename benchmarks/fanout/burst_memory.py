"""Measures memory of the processes during bursts to 1, 10 and 200 million followers."""

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.large_burst_speed_and_recovery import large_burst
from benchmarks.fanout.measured_notifier import staged
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.devkit.fixture.world import World

FOLLOWER_COUNTS = (1_000_000, 10_000_000, 200_000_000)
BURSTS = 3
"""Bursts per size: the first ones fill the caches."""

WORKER_MB = 150.0
GROWTH_MB = 40.0
"""Limit of the growth from the smallest to the largest audience. Only the caches may grow, which a small world does not
fill. A connection keeps 2 MB of pages of each of the eight inbox files, and a slice's snapshots are 8 MB.

Anything kept for each shard would be more: 25 MB per bitmap.
"""

Peaks = Mapping[int, Mapping[str, float]]
"""MB by followers and role."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    peaks = {followers: _peaks(folder / f"memory{followers}", followers, tell) for followers in FOLLOWER_COUNTS}
    return [most(peaks), growth(peaks)]


def _peaks(folder: Path, followers: int, tell: Callable[[str], None]) -> Mapping[str, float]:
    """Measure each size in new processes, because a peak never falls."""
    world = World(universe=followers, followers=followers, celebrities=1, seed=1)
    with staged(folder, world, tell=tell, collapse="PT1S") as stage:
        tell(f"memory with {followers:,} followers")
        for _ in range(BURSTS):
            large_burst(stage)
        return stage.peaks()


def most(peaks: Peaks) -> Figure:
    """Judge the highest peak of any process at any size, including mapped pages of files."""
    peaks_found = [(mb, role, followers) for followers, by_role in peaks.items() for role, mb in by_role.items()]
    mb, role, followers = max(peaks_found, default=(0.0, "no process", 0))
    detail = f"maximum, {role} with {followers:,} followers"
    return _figure("worker_rss_mb", [peak_found[0] for peak_found in peaks_found], mb, WORKER_MB, detail)


def growth(peaks: Peaks) -> Figure:
    """Judge the role whose memory grows most from the fewest to the most followers."""
    few, many = peaks[min(peaks)], peaks[max(peaks)]
    grown = {role: many[role] - few[role] for role in many if role in few}
    role = max(grown, key=lambda role_name: grown[role_name], default="no process")
    held = ", ".join(
        f"{by_role[role]:.0f} with {followers:,}" for followers, by_role in peaks.items() if role in by_role
    )
    detail = f"maximum, {role}: {held} followers"
    return _figure("worker_rss_independent_mb", [*grown.values()], grown.get(role, 0.0), GROWTH_MB, detail)


def _figure(name: str, values: list[float], value: float, limit: float, detail: str) -> Figure:
    finding = at_most(name, value, limit, unit="MB", n=len(values), detail=detail)
    return Figure(finding=finding, ours=Spread.of(values, "MB") if values else None)
