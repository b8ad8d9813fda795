"""The ledger gives the same progress for any order of facts, and its accounting balances."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.delivery.ledger import Fact, State, burst_progress, fact_rank
from notifier.domain.delivery.recipient_totals_and_progress import recipient_totals
from notifier.domain.delivery.slice_and_pool import Step
from tests.properties.ledger_strategies import SECONDS, THROTTLES, BurstRecords, burst_records
from tests.support.domain_examples import NOON

HOLDING_THROTTLES = st.sets(st.sampled_from(THROTTLES))


@given(burst_records(), st.data())
@settings(max_examples=20)
def test_order_of_facts_does_not_matter(records: BurstRecords, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(records.entries))
    assert burst_progress(records.plan, shuffled, records.claims) == records.progress


@given(burst_records())
@settings(max_examples=20)
def test_repeated_facts_do_not_matter(records: BurstRecords) -> None:
    assert burst_progress(records.plan, [*records.entries, *records.entries], records.claims) == records.progress


@given(burst_records())
@settings(max_examples=15)
def test_facts_applied_one_by_one_give_the_same_progress(records: BurstRecords) -> None:
    progress = burst_progress(records.plan, (), records.claims)
    for entry in records.entries:
        progress = progress.with_entry(entry)
    assert progress == records.progress


@given(burst_records(), SECONDS, HOLDING_THROTTLES)
@settings(max_examples=20)
def test_slice_state_is_its_highest_fact(records: BurstRecords, elapsed: timedelta, held_by: set[str]) -> None:
    now = NOON + elapsed
    for slice_, status in records.progress.slice_states.items():
        facts = {entry.fact for entry in records.entries if entry.slice == slice_}
        state = status.state(now, throttle_ids=held_by)
        if highest := [fact for fact in facts if fact_rank(fact) >= fact_rank(Fact.PULLED)]:
            assert state == State(str(max(highest, key=fact_rank)))
            assert not status.is_in_flight(now)
        elif state is State.IN_FLIGHT:
            assert Fact.DISPATCHED in facts
        elif state is State.PARKED:
            assert status.parked_by & held_by


@given(burst_records())
@settings(max_examples=15)
def test_in_flight_slice_becomes_free_again(records: BurstRecords) -> None:
    for status in records.progress.slice_states.values():
        until = status.busy_until()
        assert until is None or not status.is_in_flight(until)


@given(burst_records(), SECONDS, HOLDING_THROTTLES)
@settings(max_examples=30)
def test_accounting_always_balances(records: BurstRecords, elapsed: timedelta, held_by: set[str]) -> None:
    result = recipient_totals(records.progress, records.tallies, throttle_ids=held_by, now=NOON + elapsed)
    assert result.is_balanced
    assert result.expected == sum(sum(tally.reached.values()) + tally.suppressed for tally in records.tallies)
    assert result.suppressed == sum(tally.suppressed for tally in records.tallies)
    assert result.parked == 0 or held_by


@given(burst_records())
@settings(max_examples=20)
def test_lost_or_doubled_person_unbalances_the_accounting(records: BurstRecords) -> None:
    ended = [e for e in records.entries if e.fact is Fact.DONE and e.slice.step is Step.ROWS]
    for entry in ended:
        for wrong_count in (entry.people + 1, entry.people - 1):
            other_entries = [e for e in records.entries if e is not entry]
            progress = burst_progress(
                records.plan, [*other_entries, replace(entry, people=wrong_count)], records.claims
            )
            assert not recipient_totals(progress, records.tallies, throttle_ids=(), now=NOON).is_balanced
