"""Plans: cut a burst's fan-out into slices, from follower counts per shard."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import ceil

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey, Kind, Lane, Platform

TIERS_WITH_ALERTS = (Tier.P0, Tier.P1, Tier.P2, Tier.DORMANT)
"""Tiers with push slices, in the order of their alerts.

Dormant members are alerted only if they asked for alerts. The same applies to members of P2, unless a setting allows
alerts to P2.
"""

EXPECTED_SHARE = {Tier.P0: 0.001, Tier.P1: 0.05, Tier.P2: 0.20}
"""Expected share of a subject's followers in each tier. Planning reads no counts by tier."""

DELIVERIES_PER_SLICE = {Tier.P0: 16_000, Tier.P1: 400_000, Tier.P2: 1_600_000}
"""Target deliveries per slice: about 0.25 s of work, so that leases are short and the overhead of a task is small."""

MAX_SHARDS_PER_SLICE = {Tier.P0: 128, Tier.P1: 64, Tier.P2: 64}
"""Maximum number of shards per slice. The audience snapshots of 128 shards take about 0.2 s, even if they are nearly
empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerCounts:
    """Size of a subject's follower set, in total and per shard."""

    total: int
    by_shard: Sequence[int]
    """Number of followers, by shard number."""


NO_FOLLOWERS = FollowerCounts(total=0, by_shard=())


def with_shard_counts(current: FollowerCounts, by_shard: Mapping[int, int]) -> FollowerCounts:
    """Return the counts with those of some shards replaced or added."""
    updated = dict(enumerate(current.by_shard)) | dict(by_shard)
    end = max((shard + 1 for shard, n in updated.items() if n), default=0)
    counts = tuple(updated.get(shard, 0) for shard in range(end))
    return FollowerCounts(total=sum(counts), by_shard=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of a burst's fan-out: one stored row, regardless of the number of followers."""

    burst: BurstKey
    opened_at: datetime
    accepted_at: datetime
    lane: Lane
    followers: int
    shard_spans: tuple[tuple[int, int], ...]
    """Spans of consecutive shards with followers, as (first, last)."""
    widths: dict[Tier, int]
    """Shards per slice, for each tier of the burst."""
    pushed: tuple[Tier, ...]
    """Tiers with push slices."""
    platforms: tuple[Platform, ...] = tuple(Platform)

    @property
    def shard_count(self) -> int:
        return _shard_count(self.shard_spans)

    def slices(self) -> Iterator[Slice]:
        """Yield every slice of the burst, in the order in which they should start."""
        for tier in self.widths:
            yield from self._tier_slices(Step.ROWS, tier)
        for tier in self.pushed:
            for platform in self.platforms:
                yield from self._tier_slices(Step.for_platform(platform), tier)

    def _tier_slices(self, step: Step, tier: Tier) -> Iterator[Slice]:
        width = self.widths[Tier.P2 if tier is Tier.DORMANT else tier]
        slices = [Slice(self.burst, step, tier, first, last) for first, last in self._slice_bounds(width)]
        return _in_order(slices, tier)

    def _slice_bounds(self, width: int) -> Iterator[tuple[int, int]]:
        for first, last in self.shard_spans:
            for start in range(first, last + 1, width):
                yield start, min(start + width - 1, last)


def make_plan(burst: Burst, followers: FollowerCounts, platforms: Collection[Platform] = tuple(Platform)) -> Plan:
    shard_spans = tuple(_shard_spans(followers.by_shard))
    followers_per_shard = max(1.0, followers.total / (_shard_count(shard_spans) or 1))
    tiers = (Tier.P0,) if burst.key.subject.kind is Kind.SELF else TIERS
    return Plan(
        burst=burst.key,
        opened_at=burst.opened_at,
        accepted_at=burst.accepted_at,
        lane=burst.lane,
        followers=followers.total,
        shard_spans=shard_spans,
        widths={tier: _width(tier, followers_per_shard) for tier in tiers},
        pushed=tuple(_pushed_tiers(burst)),
        platforms=tuple(platforms),
    )


def _pushed_tiers(burst: Burst) -> Sequence[Tier]:
    if burst.verdict is not Verdict.ALL:
        return ()
    if burst.key.subject.kind is Kind.SELF:
        return (Tier.P0,)
    # In the standard lane, dormant members are in P2.
    return TIERS_WITH_ALERTS if burst.lane is Lane.CELEBRITY else TIERS


def intersection(first: FollowerCounts, second: FollowerCounts) -> FollowerCounts:
    """Return the counts of the largest possible intersection of two sets, for the plan of a restricted burst."""
    counts = tuple(min(pair) for pair in zip(first.by_shard, second.by_shard, strict=False))
    return FollowerCounts(total=sum(counts), by_shard=counts)


def expected_share(lane: Lane, tier: Tier) -> float:
    """Return the expected share of a tier. In the standard lane, dormant members are in P2."""
    return 1.0 if lane is Lane.STANDARD and tier is Tier.P2 else EXPECTED_SHARE[tier]


def _in_order(slices: list[Slice], tier: Tier) -> Iterator[Slice]:
    """Order the slices of a tier so that different tiers begin at different shards.

    Workers then find audience snapshots that other tiers have taken. With one order for all tiers, they would compute
    the snapshot of each shard at the same time.
    """
    match tier:
        case Tier.P0:
            return iter(slices)
        case Tier.P1:
            return reversed(slices)
        case _:
            middle = len(slices) // 2
            return chain(slices[middle:], reversed(slices[:middle]))


def _width(tier: Tier, followers_per_shard: float) -> int:
    return min(
        MAX_SHARDS_PER_SLICE[tier], ceil(DELIVERIES_PER_SLICE[tier] / (followers_per_shard * EXPECTED_SHARE[tier]))
    )


def _shard_count(spans: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in spans)


def _shard_spans(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    start: int | None = None
    for shard, n in enumerate(counts):
        if n and start is None:
            start = shard
        elif not n and start is not None:
            yield start, shard - 1
            start = None
    if start is not None:
        yield start, len(counts) - 1
