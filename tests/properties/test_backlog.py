"""The backlog: decisions for a few candidate bursts equal those for all bursts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.backlog import FAR, Backlog, Line, Place
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, account
from notifier.domain.delivery.scheduling import Credit, DispatchDecision, decide
from notifier.domain.delivery.slice import Pool, Step
from notifier.domain.delivery.throttle import TierLimit
from tests.properties.ledger_strategies import SECONDS, burst_records, plans
from tests.properties.test_dispatch import CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT
from tests.support.examples import NOON, SECOND


@st.composite
def progress_lists(draw: st.DrawFn) -> list[BurstProgress]:
    """Draw more bursts than credits, each opened at its own time."""
    count = draw(st.integers(1, 6))
    order = draw(st.permutations(range(count)))
    return [draw(burst_records(seq=n + 1, opened_at=NOON - n * SECOND)).account for n in order]


def held_pools(limits: Mapping[Tier, TierLimit]) -> Mapping[Pool, str]:
    return {Pool(tier): limit.by for tier, limit in limits.items() if limit.by is not None}


def decision_for(
    accounts: Sequence[BurstProgress],
    now: datetime,
    credits: Mapping[Pool, Credit],
    limits: Mapping[Tier, TierLimit],
    people_left: Mapping[Tier, float],
) -> DispatchDecision:
    return decide(accounts, now=now, credits=credits, allowances=limits, people_left=people_left)


def candidates(backlog: Backlog, credits: Mapping[Pool, Credit], now: datetime) -> Sequence[BurstProgress]:
    return backlog.candidates({pool: credit.slices for pool, credit in credits.items()}, now)


@given(progress_lists(), SECONDS, CREDITS_BY_POOL, LIMITS, PEOPLE_LEFT)
@settings(max_examples=60, deadline=None)
def test_decisions_for_candidates_equal_those_for_all_bursts(
    accounts: list[BurstProgress],
    elapsed: timedelta,
    credits: Mapping[Pool, Credit],
    limits: Mapping[Tier, TierLimit],
    people_left: Mapping[Tier, float],
) -> None:
    now, backlog = NOON + elapsed, Backlog()
    backlog.hold(held_pools(limits))
    backlog.put(accounts, now)
    decision_of_all = decision_for(accounts, now, credits, limits, people_left)
    decision_of_few = decision_for(candidates(backlog, credits, now), now, credits, limits, people_left)
    assert set(decision_of_few.queue) == set(decision_of_all.queue)
    assert set(decision_of_few.park) == set(decision_of_all.park)


@given(progress_lists(), progress_lists(), st.data())
@settings(max_examples=60, deadline=None)
def test_backlog_equals_a_fresh_one_after_any_changes(
    before: list[BurstProgress], after: list[BurstProgress], data: st.DataObject
) -> None:
    """A backlog with a history equals one that only saw the last state of each burst."""
    backlog, fresh = Backlog(), Backlog()
    backlog.hold({Pool.P1: "t1"})
    backlog.put(before, NOON)
    backlog.hold({Pool.P2: "t2"})
    backlog.put(after, NOON)
    entries = [
        LedgerEntry(slice=data.draw(st.sampled_from(list(progress.standings))), fact=Fact.DISPATCHED, n=9, at=NOON)
        for progress in after
        if progress.standings
    ]
    backlog.enter(entries, NOON)
    dropped = [progress.plan.burst for progress in before[::2]]
    backlog.drop(dropped)
    fresh.hold({Pool.P2: "t2"})
    latest = {progress.plan.burst: progress for progress in (*before, *after)}
    for entry in entries:
        latest[entry.slice.burst] = latest[entry.slice.burst].with_entry(entry)
    fresh.put((progress for key, progress in latest.items() if key not in dropped), NOON)
    assert backlog.behind() == fresh.behind()
    assert (backlog.accounts, backlog.moving, backlog.settled) == (fresh.accounts, fresh.moving, fresh.settled)
    assert _lines(backlog) == _lines(fresh)
    assert (backlog.stands, backlog.asleep, backlog.wakes) == (fresh.stands, fresh.asleep, fresh.wakes)
    assert backlog.abed.keys() == fresh.abed.keys()
    assert {pool: set(keys) for pool, keys in backlog.unmarked.items()} == {
        pool: set(keys) for pool, keys in fresh.unmarked.items()
    }


def _lines(backlog: Backlog) -> Mapping[Line, Sequence[Place]]:
    return {line: places for line, places in backlog.lines.items() if places}


@given(progress_lists(), SECONDS, SECONDS)
@settings(max_examples=40, deadline=None)
def test_waiting_bursts_are_awake_at_their_time(
    accounts: list[BurstProgress], first: timedelta, second: timedelta
) -> None:
    before, after = sorted((NOON + first, NOON + second))
    backlog, fresh = Backlog(), Backlog()
    backlog.put(accounts, before)
    backlog.wake(after)
    fresh.put(accounts, after)
    assert (_lines(backlog), backlog.asleep, backlog.behind()) == (_lines(fresh), fresh.asleep, fresh.behind())


@st.composite
def waiting_progress(draw: st.DrawFn) -> BurstProgress:
    """Draw a burst with nearly all rows written, whose alerts are sent, wait, or neither."""
    plan_, entries = draw(plans(most_shards=2)), list[LedgerEntry]()
    for slice_ in plan_.slices():
        done = LedgerEntry(slice=slice_, fact=Fact.DONE, at=NOON)
        waits = LedgerEntry(slice=slice_, fact=Fact.WAITS, n=1, at=NOON + draw(SECONDS))
        is_rows = slice_.step is Step.ROWS  # rows never wait
        waiting = [waits] if not is_rows and draw(st.integers(0, 9)) else []
        entries += [done] if draw(st.integers(0, 30 if is_rows else 3)) else waiting
    return account(plan_, entries, [])


AMPLE_CREDITS = {pool: Credit(slices=99, shards=9_999) for pool in Pool}


@given(waiting_progress())
@settings(max_examples=200, deadline=None)
def test_deferred_burst_has_no_work_until_it_wakes(progress: BurstProgress) -> None:
    def idle(time: datetime) -> bool:
        return not decision_for([progress], time, AMPLE_CREDITS, {}, {}).queue

    backlog = Backlog()
    backlog.put([progress], NOON)
    sleepers = {sleeper.burst: sleeper.until for sleeper in backlog.sleepers()}
    until = sleepers.get(progress.plan.burst)
    event("sleeps" if until else "is awake")
    if until is None:
        assert progress.settled or not idle(NOON) or not idle(NOON + FAR)
    else:
        assert idle(NOON)
        assert idle(until - timedelta(milliseconds=1))
        assert not idle(until)
    backlog.drop(sleepers)
    assert backlog.sleepers() == []


@given(progress_lists())
@settings(max_examples=30, deadline=None)
def test_backlog_counts_startable_unfinished_slices(accounts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(accounts, NOON)
    for pool, pool_backlog in backlog.behind().items():
        opened_at = [
            account.plan.opened_at
            for account in accounts
            for status in account.standings.values()
            if status.slice.pool is pool and account.awake(status, NOON)
        ]
        assert (pool_backlog.slices, pool_backlog.since) == (len(opened_at), min(opened_at, default=None))


@given(progress_lists())
@settings(max_examples=30, deadline=None)
def test_throttled_work_counts_but_is_not_late(accounts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(accounts, NOON)
    before = backlog.behind()
    backlog.hold({Pool.P2: "t1"})
    assert backlog.behind() == {**before, Pool.P2: replace(before[Pool.P2], since=None)}
