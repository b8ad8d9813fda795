"""Measures a worker's memory during ten thousand slices, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.row_and_snapshot_writes import DeliveryBed, opened
from benchmarks.fanout.suite import Parts
from benchmarks.process_stats import resident_mb
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.devkit.fixture.world import World
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey

SLICES, SLICES_QUICK = 10_000, 2_000
SHARDS = 64
SAMPLES, FIRST_FULL_SAMPLE = 20, 2
"""Number of samples, and the index of the first sample with full caches."""
RSS_MB = 150.0
GROWTH_MB = 5.0
"""One byte kept per user that the slices reach would be 65 MB."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    many = SLICES_QUICK if quick else SLICES
    tell(f"{many:,} slices of one shard in sequence")
    command = [sys.executable, "-m", "benchmarks.fanout.worker_memory", str(folder), str(many)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return figures(json.loads(done.stdout), many)


def figures(samples: Sequence[float], slice_count: int) -> list[Figure]:
    spread = Spread.of(samples, "MB")
    grown = max(samples) - samples[FIRST_FULL_SAMPLE]
    filled = slice_count // SAMPLES * (FIRST_FULL_SAMPLE + 1)
    detail = f"{samples[FIRST_FULL_SAMPLE]:.1f} MB after {filled:,} slices, {samples[-1]:.1f} MB after {slice_count:,}"
    most = at_most("slices_rss_mb", max(samples), RSS_MB, unit="MB", n=len(samples), detail=f"{slice_count:,} slices")
    flat = at_most("slices_rss_flat_mb", grown, GROWTH_MB, unit="MB", n=len(samples), detail=detail)
    return [Figure(finding=most, ours=spread), Figure(finding=flat)]


def held(folder: Path, slice_count: int) -> list[float]:
    """Deliver slices and return the samples of resident memory in MB."""
    world = World(universe=SHARDS * SHARD_MEMBERS, followers=SHARDS * SHARD_MEMBERS, celebrities=1, seed=1)
    bed, samples = DeliveryBed.make(folder, world), list[float]()
    for number in range(slice_count):
        seq, shard = divmod(number, SHARDS)
        burst = opened(BurstKey(world.subject(0), seq + 1), bed.clock.now())
        if not shard:
            bed.work.bursts.write([burst], [])
        bed.deliver([Slice(burst.key, Step.ROWS, Tier.P1, shard, shard)])
        if not (number + 1) % (slice_count // SAMPLES):
            samples.append(resident_mb())
    bed.files.close()
    return samples


PARTS: Parts = {"slices": (run, ("slices_rss_mb", "slices_rss_flat_mb"))}

if __name__ == "__main__":
    print(json.dumps(held(Path(sys.argv[1]), int(sys.argv[2]))))
