"""Whatever happens in whatever order: a breaker opens for its reasons alone, and always gives another chance."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.push.circuit_breaker import (
    CLOSED,
    Breaker,
    BreakerSettings,
    Closed,
    Failed,
    HalfOpen,
    LineResult,
    Misconfigured,
    Open,
    Succeeded,
    allow,
    record,
    retry_at,
)
from tests.support.examples import NOON, SECOND

TERMS = st.builds(
    BreakerSettings,
    failures=st.integers(1, 6),
    rest=st.integers(1, 60).map(lambda s: s * SECOND),
    successes=st.integers(1, 5),
)
TOLD: st.SearchStrategy[LineResult] = st.sampled_from([Succeeded(), Failed(reason="503"), Misconfigured(reason="key")])
ASKED = None
STEPS = st.lists(st.tuples(st.integers(-5, 40), st.just(ASKED) | TOLD), max_size=60)
"""Seconds that pass, some of them backwards, and what happens then."""
Step = tuple[int, LineResult | None]


def run(steps: list[Step], terms: BreakerSettings) -> tuple[Breaker, datetime]:
    breaker: Breaker = CLOSED
    now = NOON
    for seconds, what in steps:
        now += timedelta(seconds=seconds)
        breaker = allow(breaker, terms, now)[0] if what is None else record(breaker, terms, what, now)
    return breaker, now


@given(TERMS, STEPS)
def test_it_is_open_only_behind_enough_failures_in_a_row_or_a_mistake_of_ours(
    terms: BreakerSettings, steps: list[Step]
) -> None:
    breaker, _ = run(steps, terms)
    row = most = 0
    for _, what in steps:
        row = row + 1 if isinstance(what, Failed) else 0 if isinstance(what, Succeeded) else row
        most = max(most, row)
    ours = any(isinstance(what, Misconfigured) for _, what in steps)
    assert isinstance(breaker, Closed) or most >= terms.failures or ours


@given(TERMS, STEPS)
def test_whatever_happened_somebody_may_try_after_a_rest(terms: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, terms)
    # At once where the clock was set back to before it opened.
    assert allow(breaker, terms, now)[1] or allow(breaker, terms, now + terms.rest)[1]


@given(TERMS, STEPS)
def test_whatever_happened_successes_in_a_row_close_it(terms: BreakerSettings, steps: list[Step]) -> None:
    breaker, _ = run(steps, terms)
    now = NOON + 60 * 40 * SECOND + terms.rest  # later than all of it
    for _ in range(terms.successes):
        breaker, may = allow(breaker, terms, now)
        assert may
        breaker = record(breaker, terms, Succeeded(), now)
    assert breaker == CLOSED


@given(TERMS, STEPS)
def test_a_mistake_of_ours_leaves_it_open_whatever_was_before(terms: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, terms)
    assert isinstance(record(breaker, terms, Misconfigured(reason="key"), now), Open)


@given(TERMS, STEPS)
def test_of_those_who_try_there_are_never_more_than_it_takes_to_close_it(
    terms: BreakerSettings, steps: list[Step]
) -> None:
    breaker, _ = run(steps, terms)
    if isinstance(breaker, HalfOpen):
        assert 0 <= breaker.successes < terms.successes
        assert 0 <= breaker.trying <= terms.successes - breaker.successes


@given(TERMS, STEPS)
def test_who_is_told_to_come_again_then_may_go_through_then(terms: BreakerSettings, steps: list[Step]) -> None:
    breaker, now = run(steps, terms)
    if not allow(breaker, terms, now)[1]:
        then = retry_at(breaker, terms, now)
        assert now < then <= now + terms.rest
        assert allow(breaker, terms, then)[1]
