"""Audiences for the comparison: a share of active users, in worlds that are equal otherwise."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fanout.density_worlds import Lively, everybody_follows, shown
from notifier.devkit.fixture.world import Members
from notifier.domain.audience.bitmap import SHARD_MEMBERS, offsets
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDensity:
    """The share of a range that a burst reaches, and the number of shards in the measurement."""

    per_cent: int
    shards: int
    quick_shards: int
    judged: bool = True
    """Whether `peer_ratio` judges it. It takes the worse of the judged densities."""

    @property
    def name(self) -> str:
        return shown(self.per_cent)

    def world(self, *, quick: bool) -> Lively:
        return everybody_follows(self.size(quick=quick) * SHARD_MEMBERS, self.per_cent)

    def size(self, *, quick: bool) -> int:
        return self.quick_shards if quick else self.shards


DENSITIES = (
    PeerDensity(per_cent=5, shards=128, quick_shards=64),
    PeerDensity(per_cent=25, shards=128, quick_shards=64),
    PeerDensity(per_cent=1, shards=128, quick_shards=64, judged=False),
)


def people(snapshots: Mapping[int, AudienceSnapshot]) -> Members:
    """Return all members in P1."""
    return np.concatenate(
        [offsets(snapshot.tiers[Tier.P1]) + shard * SHARD_MEMBERS for shard, snapshot in snapshots.items()]
    )


def sample(everybody: Members, count: int) -> Members:
    """Return at most this many of the members, evenly spread."""
    places = np.linspace(0, len(everybody), min(count, len(everybody)), endpoint=False).astype(np.int64)
    return everybody[places]


def written(folder: Path, everybody: Members, counts: Iterable[int]) -> Mapping[int, tuple[Path, int]]:
    """Write a file of member numbers for each size. Return its path and the count."""
    files: dict[int, tuple[Path, int]] = {}
    for count in set(counts):
        people_sample, path = sample(everybody, count), folder / f"people-{count}"
        people_sample.astype("=i8").tofile(path)
        files[count] = path, len(people_sample)
    return files
