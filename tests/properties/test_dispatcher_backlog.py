"""The backlog: decisions for a few candidate bursts equal those for all bursts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.dispatch_backlog import MIN_DEFERRAL, Backlog, QueueKey, QueuePosition
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.scheduling import Credit, DispatchDecision, decide
from notifier.domain.delivery.slice_and_pool import Pool, Step
from notifier.domain.delivery.throttle_and_backpressure import TierLimit
from tests.properties.ledger_strategies import SECONDS, burst_records, plans
from tests.properties.test_dispatcher_decisions import CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT
from tests.support.domain_examples import NOON, SECOND


@st.composite
def progress_lists(draw: st.DrawFn) -> list[BurstProgress]:
    """Draw more bursts than credits, each opened at its own time."""
    count = draw(st.integers(1, 6))
    order = draw(st.permutations(range(count)))
    return [draw(burst_records(seq=n + 1, opened_at=NOON - n * SECOND)).progress for n in order]


def throttled_pools(limits: Mapping[Tier, TierLimit]) -> Mapping[Pool, str]:
    return {Pool(tier): limit.throttle_id for tier, limit in limits.items() if limit.throttle_id is not None}


def decision_for(
    bursts: Sequence[BurstProgress],
    now: datetime,
    credits: Mapping[Pool, Credit],
    limits: Mapping[Tier, TierLimit],
    deliveries_left: Mapping[Tier, float],
) -> DispatchDecision:
    return decide(bursts, now=now, credits=credits, limits=limits, deliveries_left=deliveries_left)


def candidates(backlog: Backlog, credits: Mapping[Pool, Credit], now: datetime) -> Sequence[BurstProgress]:
    return backlog.candidates({pool: credit.slices for pool, credit in credits.items()}, now)


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT)
@settings(max_examples=20, deadline=None)
def test_decisions_for_candidates_equal_those_for_all_bursts(
    bursts: list[BurstProgress],
    elapsed: timedelta,
    credits: Mapping[Pool, Credit],
    limits: Mapping[Tier, TierLimit],
    deliveries_left: Mapping[Tier, float],
) -> None:
    now, backlog = NOON + elapsed, Backlog()
    backlog.set_throttles(throttled_pools(limits))
    backlog.put(bursts, now)
    decision_of_all = decision_for(bursts, now, credits, limits, deliveries_left)
    decision_of_few = decision_for(candidates(backlog, credits, now), now, credits, limits, deliveries_left)
    assert set(decision_of_few.queue) == set(decision_of_all.queue)
    assert set(decision_of_few.park) == set(decision_of_all.park)


@given(progress_lists(), progress_lists(), st.data())
@settings(max_examples=20, deadline=None)
def test_backlog_equals_a_fresh_one_after_any_changes(
    before: list[BurstProgress], after: list[BurstProgress], data: st.DataObject
) -> None:
    """A backlog with a history equals one that only saw the last state of each burst."""
    backlog, fresh = Backlog(), Backlog()
    backlog.set_throttles({Pool.P1: "t1"})
    backlog.put(before, NOON)
    backlog.set_throttles({Pool.P2: "t2"})
    backlog.put(after, NOON)
    entries = [
        LedgerEntry(
            slice=data.draw(st.sampled_from(list(progress.slice_states))), fact=Fact.DISPATCHED, number=9, at=NOON
        )
        for progress in after
        if progress.slice_states
    ]
    backlog.apply_entries(entries, NOON)
    dropped = [progress.plan.burst for progress in before[::2]]
    backlog.drop(dropped)
    fresh.set_throttles({Pool.P2: "t2"})
    latest = {progress.plan.burst: progress for progress in (*before, *after)}
    for entry in entries:
        latest[entry.slice.burst] = latest[entry.slice.burst].with_entry(entry)
    fresh.put((progress for key, progress in latest.items() if key not in dropped), NOON)
    assert backlog.pool_backlogs() == fresh.pool_backlogs()
    assert (backlog.progress, backlog.in_flight, backlog.finished) == (fresh.progress, fresh.in_flight, fresh.finished)
    assert _queues(backlog) == _queues(fresh)
    assert (backlog.queues_by_burst, backlog.wake_queue, backlog.wake_times) == (
        fresh.queues_by_burst,
        fresh.wake_queue,
        fresh.wake_times,
    )
    assert backlog.evictable.keys() == fresh.evictable.keys()
    assert {pool: set(keys) for pool, keys in backlog.to_park.items()} == {
        pool: set(keys) for pool, keys in fresh.to_park.items()
    }


def _queues(backlog: Backlog) -> Mapping[QueueKey, Sequence[QueuePosition]]:
    return {key: positions for key, positions in backlog.queues.items() if positions}


@given(progress_lists(), SECONDS, SECONDS)
@settings(max_examples=15, deadline=None)
def test_woken_backlog_equals_a_fresh_one(bursts: list[BurstProgress], first: timedelta, second: timedelta) -> None:
    before, after = sorted((NOON + first, NOON + second))
    backlog, fresh = Backlog(), Backlog()
    backlog.put(bursts, before)
    backlog.wake(after)
    fresh.put(bursts, after)
    assert (_queues(backlog), backlog.wake_queue, backlog.pool_backlogs()) == (
        _queues(fresh),
        fresh.wake_queue,
        fresh.pool_backlogs(),
    )


@st.composite
def waiting_progress(draw: st.DrawFn) -> BurstProgress:
    """Draw a burst with nearly all rows written, whose alerts are sent, wait, or neither."""
    plan_, entries = draw(plans(max_shards=2)), list[LedgerEntry]()
    for slice_ in plan_.slices():
        done = LedgerEntry(slice=slice_, fact=Fact.DONE, at=NOON)
        waits = LedgerEntry(slice=slice_, fact=Fact.DEFERRED, number=1, at=NOON + draw(SECONDS))
        is_rows = slice_.step is Step.ROWS  # rows never wait
        waiting = [waits] if not is_rows and draw(st.integers(0, 9)) else []
        entries += [done] if draw(st.integers(0, 30 if is_rows else 3)) else waiting
    return burst_progress(plan_, entries, [])


AMPLE_CREDITS = {pool: Credit(slices=99, shards=9_999) for pool in Pool}


@given(waiting_progress())
@settings(max_examples=100, deadline=None)
def test_deferred_burst_has_no_work_until_it_wakes(progress: BurstProgress) -> None:
    def idle(time: datetime) -> bool:
        return not decision_for([progress], time, AMPLE_CREDITS, {}, {}).queue

    backlog = Backlog()
    backlog.put([progress], NOON)
    wake_times = {deferred.burst: deferred.until for deferred in backlog.deferred_bursts()}
    until = wake_times.get(progress.plan.burst)
    event("deferred" if until else "not deferred")
    if until is None:
        assert progress.is_finished or not idle(NOON) or not idle(NOON + MIN_DEFERRAL)
    else:
        assert idle(NOON)
        assert idle(until - timedelta(milliseconds=1))
        assert not idle(until)
    backlog.drop(wake_times)
    assert backlog.deferred_bursts() == []


@given(progress_lists())
@settings(max_examples=15, deadline=None)
def test_backlog_counts_startable_unfinished_slices(bursts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(bursts, NOON)
    for pool, pool_backlog in backlog.pool_backlogs().items():
        opened_at = [
            progress.plan.opened_at
            for progress in bursts
            for status in progress.slice_states.values()
            if status.slice.pool is pool and progress.is_runnable(status, NOON)
        ]
        assert (pool_backlog.slices, pool_backlog.oldest_opened_at) == (len(opened_at), min(opened_at, default=None))


@given(progress_lists())
@settings(max_examples=15, deadline=None)
def test_throttled_work_counts_but_is_not_late(bursts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(bursts, NOON)
    before = backlog.pool_backlogs()
    backlog.set_throttles({Pool.P2: "t1"})
    assert backlog.pool_backlogs() == {**before, Pool.P2: replace(before[Pool.P2], oldest_opened_at=None)}
