"""Dead-letter tallies: changed by compare-and-set; each stop is resumed once and audited."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import audit_entries
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, Death, LaneStop, LimitKind
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

HOUR = timedelta(hours=1)
FIRST = DeadLetterTally(
    lane="mentions",
    version=1,
    seen=7,
    in_a_row=1,
    deaths=(Death(record="mentions/0/2", position=3), Death(record="mentions/0/6", position=7)),
)
STOP = LaneStop(
    at=START + timedelta(microseconds=1),
    stopped_by="pump-1",
    kind=LimitKind.IN_A_ROW,
    limit=1,
    record="mentions/0/7",
    cause="ValueError: no 🙂",
)
STOPPED = replace(FIRST, version=2, stop=STOP)


def test_lane_without_a_tally_has_an_empty_one(backend: Backend) -> None:
    assert backend.lane_tallies.read(["mentions", "p0"]) == {
        "mentions": DeadLetterTally(lane="mentions"),
        "p0": DeadLetterTally(lane="p0"),
    }


def test_stored_tally_is_returned_unchanged(backend: Backend) -> None:
    assert backend.lane_tallies.compare_and_set(FIRST) == FIRST
    assert backend.lane_tallies.compare_and_set(STOPPED) == STOPPED
    assert backend.lane_tallies.read(["mentions"]) == {"mentions": STOPPED}


def test_lanes_are_independent(backend: Backend) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    second = replace(FIRST, lane="mentions.celebrity")
    assert backend.lane_tallies.compare_and_set(second) == second
    tallies = backend.lane_tallies.read(["mentions", "mentions.celebrity", "p0"])
    assert list(tallies.values()) == [FIRST, second, DeadLetterTally(lane="p0")]


def test_reading_no_lane_returns_nothing(backend: Backend) -> None:
    assert backend.lane_tallies.read([]) == {}


@pytest.mark.parametrize("version", [1, 3])
def test_swap_with_wrong_version_fails_and_returns_stored_tally(backend: Backend, version: int) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    assert backend.lane_tallies.compare_and_set(replace(FIRST, seen=99, version=version)) == FIRST
    assert backend.lane_tallies.read(["mentions"])["mentions"] == FIRST


def test_first_swap_needs_version_one(backend: Backend) -> None:
    assert backend.lane_tallies.compare_and_set(replace(FIRST, version=2)) == DeadLetterTally(lane="mentions")


def test_repeated_swap_reports_success(backend: Backend) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    assert backend.lane_tallies.compare_and_set(FIRST) == FIRST


def test_resume_ends_the_stop_and_empties_the_tally(backend: Backend) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    backend.lane_tallies.compare_and_set(STOPPED)
    assert backend.lane_tallies.resume("mentions", "ada", "fixed", START + HOUR) == STOP
    assert backend.lane_tallies.read(["mentions"]) == {"mentions": DeadLetterTally(lane="mentions", version=3)}


def test_resume_of_running_lane_is_rejected(backend: Backend) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    assert backend.lane_tallies.resume("mentions", "ada", "fixed", START) is None
    assert backend.lane_tallies.resume("p0", "ada", "fixed", START) is None
    assert backend.lane_tallies.read(["mentions"]) == {"mentions": FIRST}


def test_process_unaware_of_resume_loses_the_swap(backend: Backend) -> None:
    backend.lane_tallies.compare_and_set(FIRST)
    backend.lane_tallies.compare_and_set(STOPPED)
    backend.lane_tallies.resume("mentions", "ada", "fixed", START)
    stored = backend.lane_tallies.compare_and_set(replace(FIRST, version=3))
    assert stored == DeadLetterTally(lane="mentions", version=3)


def test_each_resume_is_audited_with_its_stop(sqlite: Backend, files: Files) -> None:
    sqlite.lane_tallies.compare_and_set(FIRST)
    sqlite.lane_tallies.compare_and_set(STOPPED)
    sqlite.lane_tallies.resume("mentions", "ada", "release 42", START + HOUR)
    sqlite.lane_tallies.resume("mentions", "eve", "again", START + HOUR)
    [(body, intact)] = audit_entries(files.core)
    entry = json.loads(body)
    assert intact
    assert (entry["operator"], entry["action"], entry["lane"], entry["reason"]) == (
        "ada",
        "lane.resume",
        "mentions",
        "release 42",
    )
    assert (entry["stopped_by"], entry["cause"]) == ("pump-1", STOP.cause)
