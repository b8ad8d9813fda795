"""Dispatcher decisions: within credit, fair, alerts after rows, and never stuck."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, burst_progress
from notifier.domain.delivery.scheduling import (
    POOL_CREDITS,
    Credit,
    DispatchDecision,
    decide,
    is_expired,
    yielding_bursts,
)
from notifier.domain.delivery.slice_and_pool import Pool, Slice, Step
from notifier.domain.delivery.throttle_and_backpressure import UNLIMITED, TierLimit
from tests.properties.ledger_strategies import SECONDS, burst_records, plans
from tests.support.domain_examples import NOON, SECOND, entry, plan_of, slice_of

CREDIT = st.builds(Credit, st.integers(0, 6), st.integers(0, 12))
CREDITS_BY_POOL = st.fixed_dictionaries(dict.fromkeys(Pool, CREDIT))
LIMITS = st.dictionaries(
    st.sampled_from(TIERS),
    st.sampled_from(
        [TierLimit(rate=None), TierLimit(rate=0.0, throttle_id="t1"), TierLimit(rate=9.0, throttle_id="t2")]
    ),
)
PEOPLE_LEFT = st.fixed_dictionaries(dict.fromkeys(TIERS, st.sampled_from([-5.0, 0.0, 1.0, 1e9])))

CreditsByPool = Mapping[Pool, Credit]
TierLimits = Mapping[Tier, TierLimit]


@st.composite
def progress_lists(draw: st.DrawFn) -> list[BurstProgress]:
    """Draw a few bursts at any stage of delivery."""
    moments = draw(st.lists(SECONDS, min_size=1, max_size=2))
    return [draw(burst_records(seq=n, opened_at=NOON - moment)).progress for n, moment in enumerate(moments, 1)]


def decision_for(
    bursts: Sequence[BurstProgress],
    now: datetime,
    credits: CreditsByPool,
    limits: TierLimits | None = None,
    deliveries_left: Mapping[Tier, float] | None = None,
) -> DispatchDecision:
    return decide(bursts, now=now, credits=credits, limits=limits or {}, deliveries_left=deliveries_left or {})


def slices_of_pool(pool: Pool, slices: Sequence[Slice]) -> list[Slice]:
    return [slice_ for slice_ in slices if slice_.pool is pool]


def running_slices(bursts: Sequence[BurstProgress], now: datetime) -> list[Slice]:
    """Return the running slices. Alerts cannot run before their rows are written."""
    return [
        slice_
        for progress in bursts
        for slice_, status in progress.slice_states.items()
        if status.is_in_flight(now) and progress.is_runnable(status, now)
    ]


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT)
@settings(max_examples=30)
def test_credit_is_never_exceeded(
    bursts: list[BurstProgress],
    elapsed: timedelta,
    credits: CreditsByPool,
    limits: TierLimits,
    deliveries_left: Mapping[Tier, float],
) -> None:
    now = NOON + elapsed
    queue = decision_for(bursts, now, credits, limits, deliveries_left).queue
    by_burst = {progress.plan.burst: progress for progress in bursts}
    for pool in Pool:
        new_slices, busy = slices_of_pool(pool, queue), slices_of_pool(pool, running_slices(bursts, now))
        if new_slices:
            assert len(new_slices) + len(busy) <= credits[pool].slices
        # Expired slices are only released and need no shard credit; a single slice may be wider than the credit.
        new_work = [slice_ for slice_ in new_slices if not is_expired(by_burst[slice_.burst], slice_, now)]
        if new_work and len(busy) + len(new_work) > 1:
            assert sum(slice_.width for slice_ in busy + new_work) <= credits[pool].shards


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT)
@settings(max_examples=30)
def test_only_waiting_slices_are_queued_or_parked_and_once(
    bursts: list[BurstProgress],
    elapsed: timedelta,
    credits: CreditsByPool,
    limits: TierLimits,
    deliveries_left: Mapping[Tier, float],
) -> None:
    now = NOON + elapsed
    decision = decision_for(bursts, now, credits, limits, deliveries_left)
    chosen_slices = [*decision.queue, *(slice_ for slice_, _ in decision.park)]
    assert len(chosen_slices) == len(set(chosen_slices))
    by_burst = {progress.plan.burst: progress for progress in bursts}
    for slice_ in chosen_slices:
        status = by_burst[slice_.burst].slice_states[slice_]
        assert by_burst[slice_.burst].is_runnable(status, now)
        assert not status.is_in_flight(now)


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT)
@settings(max_examples=30)
def test_throttled_rows_are_parked_and_only_expired_ones_pass(
    bursts: list[BurstProgress],
    elapsed: timedelta,
    credits: CreditsByPool,
    limits: TierLimits,
    deliveries_left: Mapping[Tier, float],
) -> None:
    now = NOON + elapsed
    decision = decision_for(bursts, now, credits, limits, deliveries_left)
    by_burst = {progress.plan.burst: progress for progress in bursts}
    for slice_, by in decision.park:
        assert by == limits[slice_.tier].throttle_id
        assert slice_.step is Step.ROWS
        assert by not in by_burst[slice_.burst].slice_states[slice_].parked_by
    for slice_ in decision.queue:
        limit = limits.get(slice_.tier, TierLimit(rate=None))
        is_exhausted = limit.rate is not None and deliveries_left[slice_.tier] <= 0
        assert slice_.step is not Step.ROWS or not is_exhausted or is_expired(by_burst[slice_.burst], slice_, now)


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, CREDIT, LIMITS)
@settings(max_examples=25)
def test_throttling_p2_does_not_affect_other_pools(
    bursts: list[BurstProgress], elapsed: timedelta, credits: CreditsByPool, reduced: Credit, limits: TierLimits
) -> None:
    unlimited: TierLimits = {**limits, Tier.P2: UNLIMITED}
    before = decision_for(bursts, NOON + elapsed, credits, unlimited)
    after = decision_for(bursts, NOON + elapsed, {**credits, Pool.P2: reduced}, limits)
    for pool in set(Pool) - {Pool.P2}:
        assert slices_of_pool(pool, before.queue) == slices_of_pool(pool, after.queue)


@given(progress_lists(), SECONDS, CREDITS_BY_POOL)
@settings(max_examples=25)
def test_pool_with_credit_and_work_is_idle_only_when_it_gives_way(
    bursts: list[BurstProgress], elapsed: timedelta, credits: CreditsByPool
) -> None:
    now = NOON + elapsed
    queue, pools_giving_way = decision_for(bursts, now, credits).queue, yielding_bursts(bursts, now, {})
    for pool in Pool:
        waiting = [
            slice_
            for progress in bursts
            for slice_, status in progress.slice_states.items()
            if slice_.pool is pool
            and progress.is_runnable(status, now)
            and not status.is_in_flight(now)
            and slice_.burst not in pools_giving_way.get(pool, ())
        ]
        if waiting and credits[pool].slices > 0 and not slices_of_pool(pool, running_slices(bursts, now)):
            assert slices_of_pool(pool, queue)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 40))
@settings(max_examples=30)
def test_small_burst_gets_its_share_beside_a_large_one(large: int, small: int, slices: int) -> None:
    bursts = [burst_progress(plan_of(seq=n, shards=shards), (), ()) for n, shards in ((1, large), (2, small))]
    queue = decision_for(bursts, NOON, {**POOL_CREDITS, Pool.P1: Credit(slices, 10_000)}).queue
    of_small_burst = [slice_ for slice_ in slices_of_pool(Pool.P1, queue) if slice_.burst.seq == 2]
    assert len(of_small_burst) >= min(small, slices // 2)
    assert len(slices_of_pool(Pool.P1, queue)) == min(large + small, slices)


@given(st.data(), st.fixed_dictionaries(dict.fromkeys(Pool, st.builds(Credit, st.integers(1, 4), st.integers(0, 6)))))
@settings(max_examples=40)
def test_all_work_finishes_with_any_widths_and_credits(data: st.DataObject, credits: CreditsByPool) -> None:
    bursts = [burst_progress(data.draw(plans(seq=n, max_shards=6)), (), ()) for n in (1, 2)]
    slices = sum(len(progress.slice_states) for progress in bursts)
    for _ in range(slices):
        queue = decision_for(bursts, NOON, credits).queue
        for slice_ in queue:
            n = slice_.burst.seq - 1
            bursts[n] = bursts[n].with_entry(entry(slice_, Fact.DONE))
    assert all(progress.is_finished for progress in bursts)


@given(st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=25)
def test_wide_slice_is_queued_despite_a_stream_of_narrow_ones(width: int, busy: int) -> None:
    wide = burst_progress(plan_of(seq=1, shards=width, width=width), (), ())
    narrow = {n: burst_progress(plan_of(seq=n, shards=1, opened_at=NOON + n * SECOND), (), ()) for n in range(2, 30)}
    queue = [slice_of(Tier.P0, seq=n) for n in range(2, 2 + busy)]
    for ended_seq in range(2, 3 + busy):
        for slice_ in queue:
            narrow[slice_.burst.seq] = narrow[slice_.burst.seq].with_entry(entry(slice_, Fact.DISPATCHED, n=1))
        credits = {**POOL_CREDITS, Pool.P0: Credit(busy + 1, width)}
        queue = slices_of_pool(Pool.P0, decision_for([wide, *narrow.values()], NOON, credits).queue)
        if slice_of(Tier.P0, 0, width - 1) in queue:
            return
        narrow[ended_seq] = narrow[ended_seq].with_entry(entry(slice_of(Tier.P0, seq=ended_seq), Fact.DONE))
    raise AssertionError("narrow slices starved the wide one")
