"""The ledger: which fact decides, and when a slice may be queued again."""

from datetime import datetime

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry, SliceState, State, burst_progress
from notifier.domain.delivery.slice import Step
from tests.support.examples import HOUR, NOON, SECOND, claim, entry, plan_of, slice_of

P1 = slice_of(Tier.P1)
QUEUED = entry(P1, Fact.DISPATCHED, n=1)


def standing(*entries: LedgerEntry) -> SliceState:
    return burst_progress(plan_of(), entries, ()).slice_states[P1]


def test_every_planned_slice_has_a_standing() -> None:
    plan = plan_of(pushed=(Tier.P0,))
    assert list(burst_progress(plan, (), ()).slice_states) == list(plan.slices())


def test_a_fact_about_a_slice_that_was_never_planned_is_no_concern() -> None:
    stranger = slice_of(Tier.P1, 99)
    found = burst_progress(plan_of(), [entry(stranger, Fact.DONE)], [claim(stranger, at=NOON, until=NOON)])
    assert stranger not in found.slice_states


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((Fact.PULLED,), State.PULLED),
        ((Fact.PULLED, Fact.DEAD), State.DEAD),
        ((Fact.DEAD, Fact.DONE), State.DONE),
        ((Fact.DONE, Fact.PULLED), State.DONE),
    ],
)
def test_the_highest_fact_is_the_state(facts: tuple[Fact, ...], state: State) -> None:
    found = standing(QUEUED, *(entry(P1, fact) for fact in facts))
    assert found.state(NOON, throttles=()) is state


def test_a_slice_is_parked_as_long_as_the_throttle_that_parked_it_holds() -> None:
    parked = standing(entry(P1, Fact.PARKED, note="t1"))
    assert parked.state(NOON, throttles=["t1", "t2"]) is State.PARKED
    assert parked.state(NOON, throttles=["t2"]) is State.PLANNED


def test_what_a_worker_holds_is_not_parked() -> None:
    found = standing(entry(P1, Fact.PARKED, note="t1"), QUEUED)
    assert found.state(NOON, throttles=["t1"]) is State.IN_FLIGHT


def test_failures_are_counted_by_their_number() -> None:
    assert standing(entry(P1, Fact.ATTEMPT, n=2), entry(P1, Fact.ATTEMPT, n=1)).attempts == 2


def test_a_slice_that_was_never_queued_may_be() -> None:
    assert standing().busy_until() is None


def test_a_dispatch_that_nobody_claimed_counts_as_lost_after_the_deadline() -> None:
    assert standing(QUEUED).busy_until() == NOON + P1.terms.requeue_after
    assert standing(QUEUED).is_in_flight(NOON + P1.terms.requeue_after) is False


def claimed(*, at: int, until: int, queued: int = 0) -> SliceState:
    """By seconds after noon."""
    again = [entry(P1, Fact.DISPATCHED, n=2, at=NOON + queued * SECOND)] if queued else []
    hold = claim(P1, at=NOON + at * SECOND, until=NOON + until * SECOND)
    return burst_progress(plan_of(), [QUEUED, *again], [hold]).slice_states[P1]


def test_a_claim_answers_the_dispatch_before_it() -> None:
    assert claimed(at=2, until=100).busy_until() == NOON + 100 * SECOND


def test_a_slice_that_was_handed_back_may_be_queued_at_once() -> None:
    assert claimed(at=2, until=3).is_in_flight(NOON + 3 * SECOND) is False


def test_a_claim_of_before_doesn_t_answer_a_new_dispatch() -> None:
    assert claimed(at=2, until=3, queued=4).busy_until() == NOON + 4 * SECOND + P1.terms.requeue_after


def test_a_worker_who_renewed_an_older_claim_late_is_left_to_finish() -> None:
    assert claimed(at=2, until=30, queued=7).busy_until() == NOON + 30 * SECOND


def test_an_ended_slice_is_never_in_flight() -> None:
    assert standing(QUEUED, entry(P1, Fact.DONE)).is_in_flight(NOON) is False


def test_phones_wait_for_the_rows_of_the_same_people() -> None:
    phones = slice_of(Tier.P1, step=Step.FCM)
    before = burst_progress(plan_of(pushed=(Tier.P1,)), [entry(slice_of(Tier.P1, 1), Fact.DONE)], ())
    assert not before.are_rows_finished(phones)
    assert before.with_entry(entry(P1, Fact.DONE)).are_rows_finished(phones)


def worth_until(*facts: LedgerEntry, step: Step) -> datetime:
    return burst_progress(plan_of(pushed=(Tier.P1,)), facts, ()).expires_at(slice_of(Tier.P1, step=step))


def test_rows_are_worth_their_term_from_the_opening() -> None:
    assert worth_until(entry(P1, Fact.DISPATCHED, n=1, at=NOON + HOUR), step=Step.ROWS) == NOON + 2 * HOUR


@pytest.mark.parametrize("fact", [Fact.DONE, Fact.DEAD, Fact.PULLED])
def test_alerts_are_worth_a_day_whatever_became_of_their_rows(fact: Fact) -> None:
    assert worth_until(entry(P1, fact, at=NOON + HOUR), step=Step.FCM) == NOON + 24 * HOUR


def phones_of(*facts: LedgerEntry, pushed: tuple[Tier, ...] = (Tier.P1, Tier.P2, Tier.DORMANT)) -> set[Tier]:
    found = burst_progress(plan_of(shards=1, pushed=pushed), facts, ())
    return {one.tier for one in found.slice_states if one.step is not Step.ROWS}


@pytest.mark.parametrize(
    ("tier", "phones", "left"),
    [
        (Tier.P1, 0, {Tier.P2, Tier.DORMANT}),
        (Tier.P2, 0, {Tier.P1}),
        (Tier.P1, 1, {Tier.P1, Tier.P2, Tier.DORMANT}),
        (Tier.P1, None, {Tier.P1, Tier.P2, Tier.DORMANT}),
    ],
)
def test_rows_whose_people_have_no_phones_have_nothing_behind_them(
    tier: Tier, phones: int | None, left: set[Tier]
) -> None:
    done = entry(slice_of(tier), Fact.DONE, phones=phones)
    assert phones_of(done) == left
    before = burst_progress(plan_of(shards=1, pushed=(Tier.P1, Tier.P2, Tier.DORMANT)), (), ())
    assert {one.tier for one in before.with_entry(done).slice_states if one.step is not Step.ROWS} == left


PHONES_OF_P1 = slice_of(Tier.P1, step=Step.FCM)


def waiting(*facts: LedgerEntry, now: datetime) -> SliceState:
    found = burst_progress(plan_of(pushed=(Tier.P1,)), [entry(P1, Fact.DONE), *facts], ())
    assert found.is_active(found.slice_states[PHONES_OF_P1], now) is not found.slice_states[PHONES_OF_P1].is_deferred(
        now
    )
    return found.slice_states[PHONES_OF_P1]


def test_what_waits_for_a_moment_is_not_in_flight_and_may_be_queued_when_it_comes() -> None:
    queued = entry(PHONES_OF_P1, Fact.DISPATCHED, n=1)
    until = entry(PHONES_OF_P1, Fact.WAITS, n=1, at=NOON + HOUR)
    found = waiting(queued, until, now=NOON + SECOND)
    assert (found.state(NOON + SECOND, throttles=()), found.is_in_flight(NOON + SECOND)) == (State.WAITING, False)
    assert waiting(queued, until, now=NOON + HOUR).busy_until() is None


def test_of_several_waits_the_last_counts_and_who_is_queued_behind_it_is_in_flight() -> None:
    waits = [entry(PHONES_OF_P1, Fact.WAITS, n=n, at=NOON + at) for n, at in ((2, HOUR), (1, 9 * HOUR))]
    again = entry(PHONES_OF_P1, Fact.DISPATCHED, n=2, at=NOON + HOUR)
    found = waiting(*waits, again, now=NOON + HOUR)
    assert (found.times_deferred, found.is_in_flight(NOON + HOUR)) == (2, True)


def test_a_burst_is_settled_when_every_slice_has_ended() -> None:
    plan = plan_of(shards=1)
    ends = [entry(one, fact) for one, fact in zip(plan.slices(), (Fact.DONE, Fact.PULLED, Fact.DEAD), strict=True)]
    assert burst_progress(plan, ends, ()).is_finished
    assert not burst_progress(plan, ends[:-1], ()).is_finished
    assert burst_progress(plan_of(shards=0), (), ()).is_finished
