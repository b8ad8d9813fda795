"""Compares our sorting of followers into tiers with alternative designs, in turns."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.audience.alternative_audiences import (
    AudienceSource,
    BloomFilters,
    FollowerSortedSet,
    FollowerTable,
    Tiers,
)
from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, ratio, unjudged
from benchmarks.fanout.suite import Parts
from notifier.adapters.redis import connect
from notifier.adapters.valkey import ValkeyServer
from notifier.config import Settings
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.devkit.fixture.world_loader_and_markers import all_bitmaps, follower_counts
from notifier.domain.audience.bitmap import count, encode
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier, divide
from notifier.flow.delivery.snapshot_and_row_writer import SHARDS_PER_WRITE
from notifier.ports.audience import MemberSets, ShardBitmap
from notifier.profiles import choose

PEOPLE, PEOPLE_QUICK = 2_000_000, 300_000
ROUNDS, ROUNDS_QUICK = 3, 2
WAYS = ("table", "sorted_set", "bloom")


@dataclass(frozen=True, slots=True, kw_only=True)
class BitmapSource:
    sets: MemberSets
    world: World
    bytes: int

    @classmethod
    def filled(cls, sets: MemberSets, world: World) -> "BitmapSource":
        crowd = WorldBitmaps(world)
        sets.put_follower_counts({world.subject(0): follower_counts(crowd, 0)})
        blobs = [blob for blob in all_bitmaps(crowd) if blob.kind is not SetKind.MUTED]
        sets.put(blobs)
        return cls(sets=sets, world=world, bytes=sum(_bytes(blob) for blob in blobs))

    def tiers(self) -> Tiers:
        counts = Counter[Tier]()
        for first in range(0, self.world.shards, SHARDS_PER_WRITE):
            shards = range(first, min(first + SHARDS_PER_WRITE, self.world.shards))
            for live in self.sets.live(self.world.subject(0), shards):
                divided = divide(live, first_of_day=True, rows_for_dormant=False)
                counts.update({tier: count(bits) for tier, bits in divided.tiers.items()})
        return counts

    def size(self) -> int:
        return self.bytes


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    people = PEOPLE_QUICK if quick else PEOPLE
    world = World(universe=2 * people, followers=people, celebrities=1, seed=1)
    server, settings = ValkeyServer(folder / "run"), Settings(data=folder / "data")
    settings.data.mkdir()
    try:
        server.start()
        with closing(choose(settings)) as profile, connect(server.url()) as redis:
            profile.ensure_schema()
            tell(f"{people:,} followers, four designs")
            table = FollowerTable.filled(folder / "table.db", world)
            with closing(table.db):
                sources: dict[str, AudienceSource] = {
                    "ours": BitmapSource.filled(profile.ports().sets, world),
                    "table": table,
                    "sorted_set": FollowerSortedSet.filled(redis, world),
                    "bloom": BloomFilters.filled(table, world),
                }
                return _measured(sources, people, ROUNDS_QUICK if quick else ROUNDS)
    finally:
        server.close()


def _measured(sources: Mapping[str, AudienceSource], people: int, rounds: int) -> list[Figure]:
    costs: dict[str, list[Cost]] = {name: [] for name in sources}
    tiers: dict[str, Tiers] = {}
    for _ in range(rounds):
        for name, source in sources.items():
            costs[name].append(cost(partial(_ask, source, name, tiers)))
    _require_same(tiers)
    return [
        *(ratio(f"audience_ratio{{{name}}}", costs["ours"], costs[name], None, rows=people) for name in WAYS),
        *(_size(name, source, people) for name, source in sources.items() if name != "bloom"),
        _wrong(tiers, people),
    ]


def _ask(source: AudienceSource, name: str, tiers: dict[str, Tiers]) -> None:
    tiers[name] = source.tiers()


def _require_same(tiers: Mapping[str, Tiers]) -> None:
    """Require the same tiers from every exact design."""
    for name in ("table", "sorted_set"):
        if tiers[name] != tiers["ours"]:
            raise AssertionError(f"tiers differ: {tiers['ours']} by ours, {tiers[name]} by {name}")


def _size(name: str, source: AudienceSource, people: int) -> Figure:
    bits = 8 * source.size() / people
    return unjudged(f"audience_bits{{{name}}}", Spread.of([bits], "bits"), people, "per follower")


def _wrong(tiers: Mapping[str, Tiers], people: int) -> Figure:
    """Count the users that a filter puts into too high a tier."""
    wrong = (
        tiers["ours"][Tier.DORMANT] - tiers["bloom"][Tier.DORMANT] + tiers["bloom"][Tier.P0] - tiers["ours"][Tier.P0]
    )
    return unjudged("bloom_false_positives", Spread.of([wrong], "users"), people, "users put into too high a tier")


def _bytes(blob: ShardBitmap) -> int:
    return len(encode(blob.bits)) if blob.kind is SetKind.FOLLOWERS else 0


PARTS: Parts = {
    "beside": (
        run,
        (
            *(f"audience_ratio{{{name}}}" for name in WAYS),
            *(f"audience_bits{{{name}}}" for name in ("ours", "table", "sorted_set")),
            "bloom_false_positives",
        ),
    )
}
