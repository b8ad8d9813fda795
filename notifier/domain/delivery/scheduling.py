"""Dispatch scheduling: decides which slices to queue next, by credits, fairness and throttles."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, is_late_push
from notifier.domain.delivery.plan import MAX_SHARDS_PER_SLICE, TIERS_WITH_ALERTS, expected_share
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool, Slice, Step
from notifier.domain.delivery.throttle_and_backpressure import TierLimit
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True)
class Credit:
    """Work of a pool that may be queued or running at once: enough to keep it busy, too little to flood it."""

    slices: int
    shards: int
    reserved_shards: int = 0
    """Shards reserved for P0, in a pool of several tiers."""
    reserved_slices: int = 0
    """Slices reserved for P0. Narrow slices of other tiers could otherwise use up all slices with hardly any shards."""

    def scaled(self, share: float) -> "Credit":
        slices, shards, reserved_shards, reserved_slices = (
            int(value * share) for value in (self.slices, self.shards, self.reserved_shards, self.reserved_slices)
        )
        return Credit(slices, shards, reserved_shards, reserved_slices)


POOL_CREDITS = {
    Pool.P0: Credit(slices=64, shards=384),
    Pool.P1: Credit(slices=32, shards=192),
    Pool.P2: Credit(slices=16, shards=192),
} | {
    # The reserved credit is for P0 alerts (VIPs), however many other alerts are queued.
    Pool(step): Credit(slices=32, shards=384, reserved_shards=320, reserved_slices=16)
    for step in PUSH_STEPS
}

MAX_YIELD_TIME = {Pool.P1: timedelta(seconds=2), Pool.P2: timedelta(seconds=30)}
"""Longest time after the opening of a burst for which its rows wait for rows of a higher tier."""
P0_LATE_AFTER = timedelta(seconds=0.3)
"""Age of a burst at which unfinished P0 rows are late. On an idle system they are done by then; the target is 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDecision:
    """Result of a dispatch round."""

    queue: tuple[Slice, ...]
    park: tuple[tuple[Slice, str], ...]
    """Slices to mark as parked, with the throttle that holds them."""


@dataclass(slots=True)
class _PoolCredit:
    """Remaining credit of a pool in this round."""

    slices: int
    shards: int
    reserved_shards: int = 0
    reserved_slices: int = 0
    deliveries_left: float | None = None
    """Deliveries that a throttle still allows; None is no limit."""
    slice_counts: dict[object, int] = field(default_factory=dict)
    """Number of queued or running slices, by burst."""

    @property
    def has_deliveries_left(self) -> bool:
        return self.deliveries_left is None or self.deliveries_left > 0

    def may_start(self, slice_: Slice) -> bool:
        """Return whether credit is left for the slice, regardless of its width."""
        return self.slices > (0 if slice_.tier is Tier.P0 else self.reserved_slices) and self.has_deliveries_left

    def try_spend(self, slice_: Slice) -> bool:
        """Spend credit on the slice; return False if too little is left."""
        if not self.may_start(slice_):
            return False
        # Without other slices any width fits: a slice wider than the whole credit must not wait forever.
        free_shards = self.shards if slice_.tier is Tier.P0 else self.shards - self.reserved_shards
        if free_shards < slice_.width and self.slice_counts:
            # Leave no shards to narrower slices. They would take them in every round, and the wide slice would never
            # start.
            self.shards = 0
            return False
        self.spend(slice_)
        return True

    def try_spend_expired(self, slice_: Slice) -> bool:
        """Spend credit on an expired slice, whatever its width: it writes no rows and sends no alerts."""
        if self.slices <= 0:
            return False
        self.spend(slice_)
        return True

    def spend(self, slice_: Slice) -> None:
        self.slices -= 1
        self.shards -= slice_.width
        self.slice_counts[slice_.burst] = self.slice_counts.get(slice_.burst, 0) + 1

    def charge(self, deliveries: float) -> None:
        if self.deliveries_left is not None:
            self.deliveries_left -= deliveries


def _pool_credit(credit: Credit) -> _PoolCredit:
    return _PoolCredit(credit.slices, credit.shards, credit.reserved_shards, credit.reserved_slices)


def decide(
    all_progress: Iterable[BurstProgress],
    *,
    now: datetime,
    credits: Mapping[Pool, Credit],
    limits: Mapping[Tier, TierLimit],
    deliveries_left: Mapping[Tier, float],
) -> DispatchDecision:
    """Decide which slices to queue and which to park.

    `deliveries_left` is the number of deliveries that each throttled tier has earned by its rate and not used.
    """
    all_progress = list(all_progress)
    remaining = {pool: _pool_credit(credits[pool]) for pool in Pool}
    for tier, tier_limit in limits.items():
        if tier_limit.rate is not None:
            remaining[Pool(tier)].deliveries_left = deliveries_left.get(tier, 0.0)
    waiting: dict[Pool, list[tuple[BurstProgress, SliceState]]] = {pool: [] for pool in Pool}
    for progress in all_progress:
        for slice_state in progress.slice_states.values():
            _classify(progress, slice_state, now, remaining, waiting)
    yielding = yielding_bursts(all_progress, now, limits)
    queue, park = [], []
    for pool, candidates in waiting.items():
        for progress, slice_state in _fair_order(candidates, remaining[pool], now):
            slice_, must_yield = slice_state.slice, slice_state.slice.burst in yielding.get(pool, ())
            if not must_yield and _try_start(progress, slice_, remaining[pool], now):
                queue.append(slice_)
            elif throttle := _blocking_throttle(
                progress, slice_state, remaining[pool], limits, now, must_yield=must_yield
            ):
                park.append((slice_, throttle))
    return DispatchDecision(queue=tuple(queue), park=tuple(park))


def _try_start(progress: BurstProgress, slice_: Slice, credit: _PoolCredit, now: datetime) -> bool:
    if is_expired(progress, slice_, now):
        return credit.try_spend_expired(slice_)
    if not credit.try_spend(slice_):
        return False
    if slice_.step is Step.ROWS:
        credit.charge(expected_deliveries(progress, slice_))
    return True


def _blocking_throttle(
    progress: BurstProgress,
    slice_state: SliceState,
    credit: _PoolCredit,
    limits: Mapping[Tier, TierLimit],
    now: datetime,
    *,
    must_yield: bool,
) -> str | None:
    """Return the throttle to record for a slice that can't start; None if there is nothing to record.

    While the throttle still allows deliveries, a slice that must yield waits for the higher tier, not for the throttle.
    """
    if is_expired(progress, slice_state.slice, now) or (must_yield and credit.has_deliveries_left):
        return None
    throttle = _throttle_on(slice_state.slice, limits)
    return None if throttle in slice_state.parked_by else throttle


def is_expired(progress: BurstProgress, slice_: Slice, now: datetime) -> bool:
    """Return whether the slice has expired.

    A worker runs an expired slice without writing rows or sending alerts. For a rows slice it takes the audience
    snapshots, and counts their members.
    """
    return now >= progress.expires_at(slice_)


def yielding_bursts(
    all_progress: Collection[BurstProgress], now: datetime, limits: Mapping[Tier, TierLimit]
) -> Mapping[Pool, Collection[BurstKey]]:
    """Return the bursts whose rows wait for a higher tier, for the pools P1 and P2.

    Rows of P1 and P2 that run at the same time would take half of the store's capacity from a higher tier. Rows do not
    wait for a tier that a throttle limits.
    """
    throttled_tiers = {tier for tier, tier_limit in limits.items() if tier_limit.rate is not None}
    is_p0_late = Tier.P0 not in throttled_tiers and any(_has_late_p0(progress, now) for progress in all_progress)

    def may_yield(pool: Pool) -> Iterator[BurstProgress]:
        return (
            progress
            for progress in all_progress
            if progress.plan.opened_at <= now < progress.plan.opened_at + MAX_YIELD_TIME[pool]
        )

    def waits_for_p1(progress: BurstProgress) -> bool:
        return Tier.P1 not in throttled_tiers and _has_waiting_p1(progress, now)

    return {
        Pool.P1: {progress.plan.burst for progress in may_yield(Pool.P1) if is_p0_late},
        Pool.P2: {progress.plan.burst for progress in may_yield(Pool.P2) if is_p0_late or waits_for_p1(progress)},
    }


def _has_late_p0(progress: BurstProgress, now: datetime) -> bool:
    """Return whether P0 rows of the burst are late.

    False for a burst with more shards than one P0 slice may have. Its P1 slices help P0: they start at the last shard,
    and take audience snapshots that P0 needs later.
    """
    opened = progress.plan.opened_at
    if (
        not opened + P0_LATE_AFTER <= now < opened + MAX_YIELD_TIME[Pool.P2]
        or progress.plan.shard_count > MAX_SHARDS_PER_SLICE[Tier.P0]
    ):
        return False
    return any(
        slice_state.slice.pool is Pool.P0 and not slice_state.final_entry
        for slice_state in progress.slice_states.values()
    )


def _has_waiting_p1(progress: BurstProgress, now: datetime) -> bool:
    return any(
        slice_state.slice.pool is Pool.P1 and not slice_state.final_entry and not slice_state.is_in_flight(now)
        for slice_state in progress.slice_states.values()
    )


def expected_deliveries(progress: BurstProgress, slice_: Slice) -> float:
    """Estimate the deliveries of a slice, if possible from finished ones. Dead slices have no counts."""
    finished = [
        (slice_state.final_entry.people, slice_state.slice.width)
        for slice_state in progress.slice_states.values()
        if slice_state.final_entry
        and slice_state.final_entry.fact is not Fact.DEAD
        and (slice_state.slice.step, slice_state.slice.tier) == (Step.ROWS, slice_.tier)
    ]
    if finished:
        return sum(people for people, _ in finished) / sum(width for _, width in finished) * slice_.width
    return (
        progress.plan.followers
        / (progress.plan.shard_count or 1)
        * slice_.width
        * expected_share(progress.plan.lane, slice_.tier)
    )


def _classify(
    progress: BurstProgress,
    slice_state: SliceState,
    now: datetime,
    remaining: Mapping[Pool, _PoolCredit],
    waiting: Mapping[Pool, list[tuple[BurstProgress, SliceState]]],
) -> None:
    """Charge a slice in flight to its pool's credit, or add it to the waiting slices if it may start."""
    slice_ = slice_state.slice
    if not progress.is_runnable(slice_state, now):
        return
    if slice_state.is_in_flight(now):
        remaining[slice_.pool].spend(slice_)
    else:
        waiting[slice_.pool].append((progress, slice_state))


def _fair_order(
    candidates: list[tuple[BurstProgress, SliceState]], credit: _PoolCredit, now: datetime
) -> Iterable[tuple[BurstProgress, SliceState]]:
    """Order candidates by tier. In a tier bursts take turns, so a small burst does not wait for all of a large one.

    Among bursts with late alerts the newest goes first, because its alert covers the older ones.
    """
    turns: dict[object, int] = dict(credit.slice_counts)
    keyed = []
    for order, (progress, slice_state) in enumerate(sorted(candidates, key=lambda c: _opening_order(c[0]))):
        turn = turns[slice_state.slice.burst] = turns.get(slice_state.slice.burst, 0) + 1
        # The tier orders only alerts: rows have a pool per tier.
        rank = TIERS_WITH_ALERTS.index(slice_state.slice.tier)
        is_late = is_late_push(progress, slice_state.slice, now)
        keyed.append(((rank, is_late, turn, -order if is_late else order), progress, slice_state))
    return [(progress, slice_state) for _, progress, slice_state in sorted(keyed, key=lambda k: k[0])]


def _opening_order(progress: BurstProgress) -> tuple[datetime, BurstKey]:
    return progress.plan.opened_at, progress.plan.burst


def _throttle_on(slice_: Slice, limits: Mapping[Tier, TierLimit]) -> str | None:
    tier_limit = limits.get(slice_.tier) if slice_.step is Step.ROWS else None
    return tier_limit.throttle_id if tier_limit and tier_limit.rate is not None else None
