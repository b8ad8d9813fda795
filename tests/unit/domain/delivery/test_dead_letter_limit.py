"""Dead-letter limit: which deaths count, when a lane stops, and what a resume resets."""

from notifier.domain.delivery.dead_letter_limit import (
    MAX_CAUSE_LENGTH,
    DeadLetterLimit,
    DeadLetterTally,
    LimitKind,
    count_death,
    count_successes,
    deaths_in_window,
    resumed,
)
from tests.support.domain_examples import NOON

LIMIT = DeadLetterLimit(in_a_row=3, in_window=4, window=10)
FRESH = DeadLetterTally(lane="mentions")


def record_deaths(tally: DeadLetterTally, *records: str, limit: DeadLetterLimit = LIMIT) -> DeadLetterTally:
    for record in records:
        tally = count_death(tally, limit, record=record, cause="ValueError: no", stopped_by="pump-1", at=NOON)
    return tally


def record_successes(tally: DeadLetterTally, count: int = 1, limit: DeadLetterLimit = LIMIT) -> DeadLetterTally:
    return count_successes(tally, limit, count)


def test_limit_allows_its_number_of_deaths_in_a_row() -> None:
    tally = record_deaths(FRESH, "r1", "r2", "r3")
    assert (tally.stop, tally.in_a_row, len(tally.deaths)) == (None, 3, 3)


def test_next_death_in_a_row_stops_the_lane_and_is_not_counted() -> None:
    tally = record_deaths(FRESH, "r1", "r2", "r3", "r4")
    assert tally.stop is not None
    assert (tally.stop.kind, tally.stop.limit, tally.stop.record) == (LimitKind.IN_A_ROW, 3, "r4")
    assert (tally.stop.at, tally.stop.stopped_by, tally.stop.cause) == (NOON, "pump-1", "ValueError: no")
    assert [death.record for death in tally.deaths] == ["r1", "r2", "r3"]


def test_success_resets_the_deaths_in_a_row() -> None:
    tally = record_deaths(record_successes(record_deaths(FRESH, "r1", "r2", "r3")), "r5")
    assert (tally.stop, tally.in_a_row) == (None, 1)


def test_share_of_the_window_stops_the_lane() -> None:
    tally = FRESH
    for record in ("r1", "r2", "r3", "r4"):
        tally = record_successes(record_deaths(tally, record))
    assert (tally.stop, deaths_in_window(tally, LIMIT)) == (None, 4)
    stopped = record_deaths(tally, "r5")
    assert stopped.stop is not None
    assert (stopped.stop.kind, stopped.stop.limit) == (LimitKind.IN_WINDOW, 4)


def test_deaths_leave_the_window() -> None:
    tally = record_deaths(record_successes(record_deaths(FRESH, "r1", "r2", "r3"), 9), "r4")
    assert [death.record for death in tally.deaths] == ["r4"]
    assert deaths_in_window(tally, LIMIT) == 1


def test_record_that_dies_again_in_the_same_run_is_counted_once() -> None:
    tally = record_deaths(FRESH, "r1", "r2")
    assert record_deaths(tally, "r1", "r2") is tally


def test_record_that_dies_again_after_a_success_is_counted_once() -> None:
    tally = record_deaths(record_successes(record_deaths(FRESH, "r1", "r2")), "r1", "r2", "r3")
    assert (tally.stop, tally.in_a_row, deaths_in_window(tally, LIMIT)) == (None, 3, 3)


def test_stopped_tally_is_not_changed() -> None:
    stopped = record_deaths(FRESH, "r1", "r2", "r3", "r4")
    assert record_deaths(stopped, "r5") is stopped
    assert record_successes(stopped, 100) is stopped


def test_resumed_tally_is_empty_and_the_next_version() -> None:
    stopped = record_deaths(DeadLetterTally(lane="mentions", version=7), "r1", "r2", "r3", "r4")
    assert resumed(stopped) == DeadLetterTally(lane="mentions", version=8)


def test_zero_disables_the_limit_in_a_row() -> None:
    limit = DeadLetterLimit(in_a_row=0, in_window=4, window=10)
    stopped = record_deaths(FRESH, "r1", "r2", "r3", "r4", "r5", limit=limit)
    assert stopped.stop is not None
    assert stopped.stop.kind is LimitKind.IN_WINDOW


def test_zero_disables_the_limit_per_window() -> None:
    limit = DeadLetterLimit(in_a_row=3, in_window=0, window=10)
    tally = FRESH
    for number in range(20):
        tally = record_successes(record_deaths(tally, f"r{number}", limit=limit), limit=limit)
    assert (tally.stop, tally.deaths) == (None, ())


def test_disabled_limits_count_nothing() -> None:
    limit = DeadLetterLimit(in_a_row=0, in_window=0)
    assert not limit.is_enabled
    assert record_deaths(FRESH, *map(str, range(200)), limit=limit) is FRESH


def test_long_cause_is_truncated() -> None:
    limit = DeadLetterLimit(in_a_row=1)
    tally = count_death(
        record_deaths(FRESH, "r1", limit=limit), limit, record="r2", cause="x" * 9_000, stopped_by="p", at=NOON
    )
    assert tally.stop is not None
    assert tally.stop.cause == "x" * MAX_CAUSE_LENGTH


def test_default_limit_in_a_row_is_stricter_than_per_window() -> None:
    default = DeadLetterLimit()
    assert default.in_a_row < default.in_window == default.window // 100
