"""Dead-letter limit: no records make more dead letters than allowed; repeats count once."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.delivery.dead_letter_limit import (
    DeadLetterLimit,
    DeadLetterTally,
    LimitKind,
    count_death,
    count_successes,
    deaths_in_window,
)
from tests.support.domain_examples import NOON

LIMITS = st.builds(DeadLetterLimit, in_a_row=st.integers(0, 5), in_window=st.integers(0, 8), window=st.integers(1, 30))
RECORDS = st.lists(st.booleans(), max_size=120)
"""For each record of a lane, whether it dies."""


def handle(records: Sequence[bool], limit: DeadLetterLimit) -> tuple[DeadLetterTally, list[int]]:
    """Return the tally after the records up to a stop, and the numbers of the dead letters."""
    tally, dead = DeadLetterTally(lane="mentions"), list[int]()
    for number, dies in enumerate(records):
        if not dies:
            tally = count_successes(tally, limit, 1)
            continue
        tally = count_death(tally, limit, record=str(number), cause="no", stopped_by="p", at=NOON)
        if tally.stop is not None:
            break
        dead.append(number)
    return tally, dead


def longest_row(numbers: Sequence[int]) -> int:
    longest = length = 0
    for previous, number in zip([-2, *numbers], numbers, strict=False):
        length = length + 1 if number == previous + 1 else 1
        longest = max(longest, length)
    return longest


@given(RECORDS, LIMITS)
def test_no_more_dead_letters_in_a_row_than_allowed(records: list[bool], limit: DeadLetterLimit) -> None:
    _, dead = handle(records, limit)
    assert limit.in_a_row == 0 or longest_row(dead) <= limit.in_a_row


@given(RECORDS, LIMITS)
def test_no_more_dead_letters_in_a_window_than_allowed(records: list[bool], limit: DeadLetterLimit) -> None:
    _, dead = handle(records, limit)
    most = max((sum(end - limit.window < number <= end for number in dead) for end in dead), default=0)
    assert limit.in_window == 0 or most <= limit.in_window


@given(RECORDS, LIMITS)
def test_lane_stops_only_at_a_limit_that_one_more_death_would_exceed(
    records: list[bool], limit: DeadLetterLimit
) -> None:
    tally, dead = handle(records, limit)
    if tally.stop is None:
        return
    with_stop = [*dead, int(tally.stop.record)]
    match tally.stop.kind:
        case LimitKind.IN_A_ROW:
            assert longest_row(with_stop) == limit.in_a_row + 1
        case LimitKind.IN_WINDOW:
            assert sum(number > with_stop[-1] - limit.window for number in with_stop) == limit.in_window + 1


@given(RECORDS, LIMITS)
def test_tally_stays_small(records: list[bool], limit: DeadLetterLimit) -> None:
    tally, _ = handle(records, limit)
    assert len(tally.deaths) <= max(limit.in_a_row, min(limit.in_window or limit.window, limit.window))
    assert deaths_in_window(tally, limit) <= len(tally.deaths)


@given(RECORDS, LIMITS, st.integers(1, 20))
def test_batch_repeated_after_a_crash_counts_no_death_of_the_window_twice(
    records: list[bool], limit: DeadLetterLimit, batch: int
) -> None:
    tally = DeadLetterTally(lane="mentions")
    for start in range(0, len(records), batch):
        for _ in range(2):  # the crash comes before the commit
            for number, dies in enumerate(records[start : start + batch], start):
                if dies:
                    tally = count_death(tally, limit, record=str(number), cause="no", stopped_by="p", at=NOON)
                else:
                    tally = count_successes(tally, limit, 1)
        recorded = [death.record for death in tally.deaths]
        assert len(recorded) == len(set(recorded))


@given(st.integers(1, 200), LIMITS)
def test_lane_where_everything_fails_reaches_exactly_the_smaller_limit(
    record_count: int, limit: DeadLetterLimit
) -> None:
    _, dead = handle([True] * record_count, limit)
    # A window shorter than the number it allows never stops a lane.
    reachable = [limit.in_a_row] * (limit.in_a_row > 0) + [limit.in_window] * (0 < limit.in_window < limit.window)
    assert len(dead) == min([record_count, *reachable])
