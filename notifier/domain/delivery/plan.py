"""The plan: how a burst's fan-out is cut into slices, from the follower counts of its shards alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import ceil

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.slice import Slice, Step
from notifier.domain.ids import BurstKey, Kind, Lane, Platform

PUSHED_TIERS = (Tier.P0, Tier.P1, Tier.P2, Tier.DORMANT)
"""In the order in which their phones ring. Of P2, unless all of it is to be alerted, and of those who are served by
pull alone it is whoever asked for alerts, which their seals say."""

EXPECTED_SHARE = {Tier.P0: 0.001, Tier.P1: 0.05, Tier.P2: 0.20}
"""Of a subject's followers; the planner knows no tier counts, and calls nobody to learn them."""

WORTH_A_SLICE = {Tier.P0: 16_000, Tier.P1: 400_000, Tier.P2: 1_600_000}
"""Deliveries: about a quarter of a second of work, so that a claim is short and a task's cost is lost in it."""

WIDEST = {Tier.P0: 128, Tier.P1: 64, Tier.P2: 64}
"""Shards: sealing 128 of them takes about 0.2 s, even when hardly anybody lives there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHead:
    """The size of a subject's follower set and of each of its shards; planning reads this alone."""

    total: int
    counts: Sequence[int]
    """By shard number."""


NO_FOLLOWERS = SetHead(total=0, counts=())


def with_counts(head: SetHead, of_shards: Mapping[int, int]) -> SetHead:
    """The same with these shards' counts, which may be shards that it didn't have."""
    known = dict(enumerate(head.counts)) | dict(of_shards)
    end = max((shard + 1 for shard, n in known.items() if n), default=0)
    counts = tuple(known.get(shard, 0) for shard in range(end))
    return SetHead(total=sum(counts), counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One row, whatever the number of followers."""

    burst: BurstKey
    opened_at: datetime
    accepted_at: datetime
    lane: Lane
    followers: int
    ranges: tuple[tuple[int, int], ...]
    """Runs of shards that have followers: first and last."""
    widths: dict[Tier, int]
    """Shards in a slice of each tier that the burst has."""
    pushed: tuple[Tier, ...]
    platforms: tuple[Platform, ...] = tuple(Platform)
    """Those that alerts go to."""

    @property
    def shards(self) -> int:
        return _shards(self.ranges)

    def slices(self) -> Iterator[Slice]:
        """Every slice of the burst, in the order in which they should start."""
        for tier in self.widths:
            yield from self._of(Step.ROWS, tier)
        for tier in self.pushed:
            for platform in self.platforms:
                yield from self._of(Step.of(platform), tier)

    def _of(self, step: Step, tier: Tier) -> Iterator[Slice]:
        width = self.widths[Tier.P2 if tier is Tier.DORMANT else tier]
        return _in_order([Slice(self.burst, step, tier, first, last) for first, last in self._chunks(width)], tier)

    def _chunks(self, width: int) -> Iterator[tuple[int, int]]:
        for first, last in self.ranges:
            for start in range(first, last + 1, width):
                yield start, min(start + width - 1, last)


def plan(burst: Burst, head: SetHead, platforms: Collection[Platform] = tuple(Platform)) -> Plan:
    ranges = tuple(_runs(head.counts))
    mean = max(1.0, head.total / (_shards(ranges) or 1))
    tiers = (Tier.P0,) if burst.key.subject.kind is Kind.SELF else TIERS
    return Plan(
        burst=burst.key,
        opened_at=burst.opened_at,
        accepted_at=burst.accepted_at,
        lane=burst.lane,
        followers=head.total,
        ranges=ranges,
        widths={tier: _width(tier, mean) for tier in tiers},
        pushed=tuple(_pushed(burst)),
        platforms=tuple(platforms),
    )


def _pushed(burst: Burst) -> Sequence[Tier]:
    if burst.verdict is not Verdict.ALL:
        return ()
    if burst.key.subject.kind is Kind.SELF:
        return (Tier.P0,)
    return PUSHED_TIERS if burst.lane is Lane.CELEBRITY else TIERS  # in the standard lane nobody is dormant


def narrowed(head: SetHead, by: SetHead) -> SetHead:
    """The most that two sets can have in common: what a restricted burst is planned for."""
    counts = tuple(min(pair) for pair in zip(head.counts, by.counts, strict=False))
    return SetHead(total=sum(counts), counts=counts)


def expected_share(lane: Lane, tier: Tier) -> float:
    """In the standard lane P2 takes the dormant too."""
    return 1.0 if lane is Lane.STANDARD and tier is Tier.P2 else EXPECTED_SHARE[tier]


def _in_order(slices: list[Slice], tier: Tier) -> Iterator[Slice]:
    """P0 seals from the front, P1 from the back, and P2, where P1 is held back, from the middle on: so they share the
    sealing, where two that went side by side would both seal every shard."""
    match tier:
        case Tier.P0:
            return iter(slices)
        case Tier.P1:
            return reversed(slices)
        case _:
            middle = len(slices) // 2
            return chain(slices[middle:], reversed(slices[:middle]))


def _width(tier: Tier, followers_a_shard: float) -> int:
    return min(WIDEST[tier], ceil(WORTH_A_SLICE[tier] / (followers_a_shard * EXPECTED_SHARE[tier])))


def _shards(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _runs(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    start: int | None = None
    for shard, n in enumerate(counts):
        if n and start is None:
            start = shard
        elif not n and start is not None:
            yield start, shard - 1
            start = None
    if start is not None:
        yield start, len(counts) - 1
