"""The ledger says the same whoever reads it and in whatever order; and its books balance."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.delivery.accounting import books
from notifier.domain.delivery.ledger import Fact, State, account, rank
from notifier.domain.delivery.slice import Step
from tests.properties.bookkeeping import SECONDS, THROTTLES, Files, files
from tests.support.examples import NOON

HELD_BY = st.sets(st.sampled_from(THROTTLES))


@given(files(), st.data())
@settings(max_examples=40)
def test_the_order_of_the_facts_doesn_t_matter(kept: Files, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(kept.entries))
    assert account(kept.plan, shuffled, kept.claims) == kept.account


@given(files())
@settings(max_examples=40)
def test_a_fact_told_twice_is_told_once(kept: Files) -> None:
    assert account(kept.plan, [*kept.entries, *kept.entries], kept.claims) == kept.account


@given(files())
@settings(max_examples=30)
def test_facts_told_one_by_one_make_the_same_account(kept: Files) -> None:
    found = account(kept.plan, (), kept.claims)
    for entry in kept.entries:
        found = found.with_entry(entry)
    assert found == kept.account


@given(files(), SECONDS, HELD_BY)
@settings(max_examples=40)
def test_a_slice_s_state_is_its_highest_fact(kept: Files, passed: timedelta, held_by: set[str]) -> None:
    now = NOON + passed
    for piece, standing in kept.account.standings.items():
        facts = {entry.fact for entry in kept.entries if entry.slice == piece}
        state = standing.state(now, throttles=held_by)
        if highest := [fact for fact in facts if rank(fact) >= rank(Fact.PULLED)]:
            assert state == State(str(max(highest, key=rank)))
            assert not standing.in_flight(now)
        elif state is State.IN_FLIGHT:
            assert Fact.DISPATCHED in facts
        elif state is State.PARKED:
            assert standing.parked_by & held_by


@given(files())
@settings(max_examples=30)
def test_whatever_is_in_flight_is_free_again_some_day(kept: Files) -> None:
    for standing in kept.account.standings.values():
        until = standing.busy_until()
        assert until is None or not standing.in_flight(until)


@given(files(), SECONDS, HELD_BY)
@settings(max_examples=60)
def test_the_books_balance_whatever_happened(kept: Files, passed: timedelta, held_by: set[str]) -> None:
    found = books(kept.account, kept.tallies, throttles=held_by, now=NOON + passed)
    assert found.balanced
    assert found.expected == sum(sum(one.reached.values()) + one.suppressed for one in kept.tallies)
    assert found.suppressed == sum(one.suppressed for one in kept.tallies)
    assert found.parked == 0 or held_by


@given(files())
@settings(max_examples=40)
def test_a_person_lost_or_doubled_in_a_slice_unbalances_them(kept: Files) -> None:
    ended = [e for e in kept.entries if e.fact is Fact.DONE and e.slice.step is Step.ROWS]
    for entry in ended:
        for wrong in (entry.people + 1, entry.people - 1):
            others = [e for e in kept.entries if e is not entry]
            told = account(kept.plan, [*others, replace(entry, people=wrong)], kept.claims)
            assert not books(told, kept.tallies, throttles=(), now=NOON).balanced
