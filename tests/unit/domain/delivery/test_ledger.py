"""Ledger: which fact decides, and when a slice may be queued again."""

from datetime import datetime

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry, SliceState, State, burst_progress
from notifier.domain.delivery.slice_and_pool import Step
from tests.support.domain_examples import HOUR, NOON, SECOND, claim, entry, plan_of, slice_of

P1 = slice_of(Tier.P1)
QUEUED = entry(P1, Fact.DISPATCHED, n=1)


def p1_state(*entries: LedgerEntry) -> SliceState:
    return burst_progress(plan_of(), entries, ()).slice_states[P1]


def test_every_planned_slice_has_a_state() -> None:
    plan = plan_of(pushed=(Tier.P0,))
    assert list(burst_progress(plan, (), ()).slice_states) == list(plan.slices())


def test_fact_about_an_unplanned_slice_is_ignored() -> None:
    unplanned = slice_of(Tier.P1, 99)
    progress = burst_progress(plan_of(), [entry(unplanned, Fact.DONE)], [claim(unplanned, at=NOON, until=NOON)])
    assert unplanned not in progress.slice_states


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((Fact.PULLED,), State.PULLED),
        ((Fact.PULLED, Fact.DEAD), State.DEAD),
        ((Fact.DEAD, Fact.DONE), State.DONE),
        ((Fact.DONE, Fact.PULLED), State.DONE),
    ],
)
def test_highest_fact_is_the_state(facts: tuple[Fact, ...], state: State) -> None:
    slice_ = p1_state(QUEUED, *(entry(P1, fact) for fact in facts))
    assert slice_.state(NOON, throttle_ids=()) is state


def test_slice_is_parked_while_its_throttle_is_active() -> None:
    parked = p1_state(entry(P1, Fact.PARKED, note="t1"))
    assert parked.state(NOON, throttle_ids=["t1", "t2"]) is State.PARKED
    assert parked.state(NOON, throttle_ids=["t2"]) is State.PLANNED


def test_queued_slice_is_not_parked() -> None:
    slice_ = p1_state(entry(P1, Fact.PARKED, note="t1"), QUEUED)
    assert slice_.state(NOON, throttle_ids=["t1"]) is State.IN_FLIGHT


def test_attempts_are_the_highest_attempt_number() -> None:
    assert p1_state(entry(P1, Fact.ATTEMPT, n=2), entry(P1, Fact.ATTEMPT, n=1)).failure_count == 2


def test_new_slice_may_be_queued() -> None:
    assert p1_state().busy_until() is None


def test_unclaimed_dispatch_is_lost_after_the_deadline() -> None:
    assert p1_state(QUEUED).busy_until() == NOON + P1.pool_timing.requeue_after
    assert p1_state(QUEUED).is_in_flight(NOON + P1.pool_timing.requeue_after) is False


def claimed(*, at: int, until: int, queued: int = 0) -> SliceState:
    """Return the state of a claimed slice; times are seconds after noon."""
    redispatched = [entry(P1, Fact.DISPATCHED, n=2, at=NOON + queued * SECOND)] if queued else []
    claim_ = claim(P1, at=NOON + at * SECOND, until=NOON + until * SECOND)
    return burst_progress(plan_of(), [QUEUED, *redispatched], [claim_]).slice_states[P1]


def test_claim_answers_the_dispatch_before_it() -> None:
    assert claimed(at=2, until=100).busy_until() == NOON + 100 * SECOND


def test_returned_slice_may_be_queued_at_once() -> None:
    assert claimed(at=2, until=3).is_in_flight(NOON + 3 * SECOND) is False


def test_older_claim_does_not_answer_a_new_dispatch() -> None:
    assert claimed(at=2, until=3, queued=4).busy_until() == NOON + 4 * SECOND + P1.pool_timing.requeue_after


def test_late_renewal_of_an_older_claim_keeps_the_slice() -> None:
    assert claimed(at=2, until=30, queued=7).busy_until() == NOON + 30 * SECOND


def test_ended_slice_is_never_in_flight() -> None:
    assert p1_state(QUEUED, entry(P1, Fact.DONE)).is_in_flight(NOON) is False


def test_alerts_wait_for_the_rows_of_the_same_members() -> None:
    alerts = slice_of(Tier.P1, step=Step.FCM)
    progress = burst_progress(plan_of(pushed=(Tier.P1,)), [entry(slice_of(Tier.P1, 1), Fact.DONE)], ())
    assert not progress.are_rows_finished(alerts)
    assert progress.with_entry(entry(P1, Fact.DONE)).are_rows_finished(alerts)


def worth_until(*facts: LedgerEntry, step: Step) -> datetime:
    return burst_progress(plan_of(pushed=(Tier.P1,)), facts, ()).expires_at(slice_of(Tier.P1, step=step))


def test_rows_are_worth_writing_for_their_term_after_opening() -> None:
    assert worth_until(entry(P1, Fact.DISPATCHED, n=1, at=NOON + HOUR), step=Step.ROWS) == NOON + 2 * HOUR


@pytest.mark.parametrize("fact", [Fact.DONE, Fact.DEAD, Fact.PULLED])
def test_alerts_are_worth_sending_for_a_day(fact: Fact) -> None:
    assert worth_until(entry(P1, fact, at=NOON + HOUR), step=Step.FCM) == NOON + 24 * HOUR


def alert_tiers(*facts: LedgerEntry, pushed: tuple[Tier, ...] = (Tier.P1, Tier.P2, Tier.DORMANT)) -> set[Tier]:
    progress = burst_progress(plan_of(shards=1, pushed=pushed), facts, ())
    return {slice_.tier for slice_ in progress.slice_states if slice_.step is not Step.ROWS}


@pytest.mark.parametrize(
    ("tier", "alert_count", "remaining"),
    [
        (Tier.P1, 0, {Tier.P2, Tier.DORMANT}),
        (Tier.P2, 0, {Tier.P1}),
        (Tier.P1, 1, {Tier.P1, Tier.P2, Tier.DORMANT}),
        (Tier.P1, None, {Tier.P1, Tier.P2, Tier.DORMANT}),
    ],
)
def test_alert_slices_are_dropped_when_rows_report_no_devices(
    tier: Tier, alert_count: int | None, remaining: set[Tier]
) -> None:
    done = entry(slice_of(tier), Fact.DONE, alert_count=alert_count)
    assert alert_tiers(done) == remaining
    progress = burst_progress(plan_of(shards=1, pushed=(Tier.P1, Tier.P2, Tier.DORMANT)), (), ())
    assert {
        slice_.tier for slice_ in progress.with_entry(done).slice_states if slice_.step is not Step.ROWS
    } == remaining


P1_ALERTS = slice_of(Tier.P1, step=Step.FCM)


def deferred_state(*facts: LedgerEntry, now: datetime) -> SliceState:
    progress = burst_progress(plan_of(pushed=(Tier.P1,)), [entry(P1, Fact.DONE), *facts], ())
    assert progress.is_runnable(progress.slice_states[P1_ALERTS], now) is not progress.slice_states[
        P1_ALERTS
    ].is_deferred(now)
    return progress.slice_states[P1_ALERTS]


def test_deferred_slice_may_be_queued_at_its_wake_time() -> None:
    queued = entry(P1_ALERTS, Fact.DISPATCHED, n=1)
    until = entry(P1_ALERTS, Fact.DEFERRED, n=1, at=NOON + HOUR)
    slice_ = deferred_state(queued, until, now=NOON + SECOND)
    assert (slice_.state(NOON + SECOND, throttle_ids=()), slice_.is_in_flight(NOON + SECOND)) == (State.DEFERRED, False)
    assert deferred_state(queued, until, now=NOON + HOUR).busy_until() is None


def test_last_deferral_counts_and_later_dispatch_is_in_flight() -> None:
    waits = [entry(P1_ALERTS, Fact.DEFERRED, n=n, at=NOON + at) for n, at in ((2, HOUR), (1, 9 * HOUR))]
    redispatched = entry(P1_ALERTS, Fact.DISPATCHED, n=2, at=NOON + HOUR)
    slice_ = deferred_state(*waits, redispatched, now=NOON + HOUR)
    assert (slice_.times_deferred, slice_.is_in_flight(NOON + HOUR)) == (2, True)


def test_burst_is_finished_when_every_slice_has_ended() -> None:
    plan = plan_of(shards=1)
    ends = [
        entry(slice_, fact) for slice_, fact in zip(plan.slices(), (Fact.DONE, Fact.PULLED, Fact.DEAD), strict=True)
    ]
    assert burst_progress(plan, ends, ()).is_finished
    assert not burst_progress(plan, ends[:-1], ()).is_finished
    assert burst_progress(plan_of(shards=0), (), ()).is_finished
