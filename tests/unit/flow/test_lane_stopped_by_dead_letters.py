"""Lane guard: several processes, restarts, an unreachable store, logs and metrics."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit, DeadLetterTally, LaneStop, LimitKind
from notifier.domain.errors import StoreUnavailable
from notifier.flow.dead_letter_lane_stops import (
    SUCCESSES_WRITE_INTERVAL,
    TALLY_READ_INTERVAL,
    LaneGuard,
    LaneGuards,
    stopped_lanes,
)
from notifier.metrics import Metrics
from notifier.topics import PROCESSING_LANES
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.dead_letters import MemoryDeadLetterTallies

LANE = "mentions"


@dataclass
class BreakableTallies:
    """Tallies that can be made unreachable, and that count their calls."""

    inner: MemoryDeadLetterTallies = field(default_factory=MemoryDeadLetterTallies)
    unreachable: bool = False
    reads: int = 0
    swaps: int = 0

    def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
        self.reads += 1
        self._answer()
        return self.inner.read(lanes)

    def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
        self.swaps += 1
        self._answer()
        return self.inner.compare_and_set(tally)

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        return self.inner.resume(lane, operator, reason, now)

    def _answer(self) -> None:
        if self.unreachable:
            raise StoreUnavailable()


@dataclass
class LaneScenario:
    """One lane, its tallies, and guards for as many processes as a test needs."""

    limit: DeadLetterLimit = field(default_factory=lambda: DeadLetterLimit(in_a_row=3, in_window=5, window=100))
    tallies: BreakableTallies = field(default_factory=BreakableTallies)
    clock: ManualClock = field(default_factory=ManualClock)
    metrics: Metrics = field(default_factory=Metrics)

    def guard(self, owner: str = "pump-1") -> LaneGuard:
        return LaneGuard(
            lane=LANE,
            limit=self.limit,
            tallies=self.tallies,
            clock=self.clock,
            metrics=self.metrics,
            owner=owner,
        )

    def resume(self) -> None:
        assert self.tallies.resume(LANE, "ada", "fixed", self.clock.now()) is not None
        self.clock.advance(TALLY_READ_INTERVAL)

    def stored(self) -> DeadLetterTally:
        return self.tallies.inner.read([LANE])[LANE]

    def gauge(self) -> float | None:
        return self.metrics.registry.get_sample_value("notifier_lane_stopped", {"lane": LANE})


def admitted(guard: LaneGuard, *records: str) -> list[bool]:
    return [guard.admit_dead_letter(record, "ValueError: no") for record in records]


def test_deaths_are_admitted_up_to_the_limit() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    assert admitted(guard, "r1", "r2", "r3", "r4", "r5") == [True, True, True, False, False]
    stop = guard.check()
    assert stop is not None
    assert (stop.kind, stop.record, stop.stopped_by) == (LimitKind.IN_A_ROW, "r4", "pump-1")


def test_restarted_process_continues_the_count() -> None:
    scenario = LaneScenario()
    assert admitted(scenario.guard(), "r1", "r2") == [True, True]
    assert admitted(scenario.guard("pump-2"), "r3", "r4") == [True, False]
    assert scenario.guard("pump-3").check() is not None


def test_processes_of_a_lane_count_together() -> None:
    scenario = LaneScenario()
    first, second = scenario.guard("pump-1"), scenario.guard("pump-2")
    assert (first.check(), second.check()) == (None, None)
    answers = [admitted(guard, record)[0] for guard, record in zip([first, second] * 2, "abcd", strict=True)]
    assert answers == [True, True, True, False]


def test_stop_by_another_process_is_noticed_within_a_second() -> None:
    scenario = LaneScenario()
    second = scenario.guard("pump-2")
    assert second.check() is None
    admitted(scenario.guard(), "r1", "r2", "r3", "r4")
    scenario.clock.advance(TALLY_READ_INTERVAL)
    assert second.check() is not None


def test_lane_is_read_once_a_second() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    for _ in range(20):
        guard.check()
    assert scenario.tallies.reads == 1


def test_resume_begins_with_an_empty_window() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    admitted(guard, "r1", "r2", "r3", "r4")
    scenario.resume()
    assert guard.check() is None
    assert admitted(guard, "r4", "r5", "r6", "r7") == [True, True, True, False]


def test_lane_without_deaths_writes_nothing() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    for _ in range(100):
        guard.check()
        guard.record_successes(400)
        scenario.clock.advance(timedelta(seconds=1))
    assert scenario.tallies.swaps == 0


def test_successes_reset_the_run_and_are_written_with_next_death() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    admitted(guard, "r1", "r2", "r3")
    guard.record_successes(7)
    assert admitted(guard, "r4") == [True]
    assert (scenario.stored().seen, scenario.stored().in_a_row) == (11, 1)


def test_successes_are_written_periodically_while_window_has_deaths() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    admitted(guard, "r1")
    scenario.clock.advance(SUCCESSES_WRITE_INTERVAL)
    guard.record_successes(99)
    assert [death.record for death in scenario.stored().deaths] == ["r1"]
    scenario.clock.advance(SUCCESSES_WRITE_INTERVAL)
    guard.record_successes(1)
    assert scenario.stored().deaths == ()
    assert scenario.tallies.swaps == 3


def test_successes_survive_an_unreachable_store() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    admitted(guard, "r1")
    scenario.tallies.unreachable = True
    guard.record_successes(50)
    scenario.tallies.unreachable = False
    scenario.clock.advance(SUCCESSES_WRITE_INTERVAL)
    guard.record_successes(50)
    assert scenario.stored().deaths == ()


def test_unknown_lane_waits_for_the_store() -> None:
    scenario = LaneScenario(tallies=BreakableTallies(unreachable=True))
    with pytest.raises(StoreUnavailable):
        scenario.guard().check()


def test_known_lane_runs_without_the_store_but_admits_no_death() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    assert guard.check() is None
    scenario.tallies.unreachable = True
    scenario.clock.advance(TALLY_READ_INTERVAL)
    assert guard.check() is None
    with pytest.raises(StoreUnavailable):
        guard.admit_dead_letter("r1", "ValueError: no")


def test_endless_contention_is_an_outage() -> None:
    class Contended(BreakableTallies):
        def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
            stored = self.inner.read([tally.lane])[tally.lane]
            return self.inner.compare_and_set(
                DeadLetterTally(lane=LANE, version=stored.version + 1, seen=stored.seen + 1)
            )

    with pytest.raises(StoreUnavailable, match="keep changing"):
        LaneScenario(tallies=Contended()).guard().admit_dead_letter("r1", "ValueError: no")


def test_older_read_does_not_replace_newer_write() -> None:
    class Late(BreakableTallies):
        def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
            return {lane: DeadLetterTally(lane=lane) for lane in lanes}

    scenario = LaneScenario(tallies=Late())
    guard = scenario.guard()
    admitted(guard, "r1", "r2", "r3", "r4")
    scenario.clock.advance(TALLY_READ_INTERVAL)
    assert guard.check() is not None


def test_recorded_stop_applies_when_limits_are_off() -> None:
    scenario = LaneScenario()
    admitted(scenario.guard(), "r1", "r2", "r3", "r4")
    scenario.limit = DeadLetterLimit(in_a_row=0, in_window=0)
    guard = scenario.guard("pump-2")
    assert guard.check() is not None
    scenario.resume()
    assert guard.check() is None
    assert admitted(guard, *map(str, range(200))) == [True] * 200


def test_stop_is_logged_once_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    with caplog.at_level(logging.WARNING, "notifier.lanes"):
        admitted(guard, "r1", "r2", "r3", "r4")
        for _ in range(5):
            scenario.clock.advance(TALLY_READ_INTERVAL)
            guard.check()
        scenario.resume()
        guard.check()
    stopped, resumed = caplog.records
    assert (stopped.levelname, resumed.levelname) == ("ERROR", "WARNING")
    fields = {name: vars(stopped)[name] for name in ("lane", "kind", "record", "stopped_by")}
    assert fields == {"lane": LANE, "kind": "in_a_row", "record": "r4", "stopped_by": "pump-1"}
    assert (
        "mentions is stopped by its dead-letter limit: more than 3 dead letters in a row; stopped at r4"
        in stopped.message
    )


def test_gauge_shows_whether_the_lane_is_stopped() -> None:
    scenario = LaneScenario()
    guard = scenario.guard()
    guard.check()
    assert scenario.gauge() == 0
    admitted(guard, "r1", "r2", "r3", "r4")
    assert scenario.gauge() == 1
    scenario.resume()
    guard.check()
    assert scenario.gauge() == 0


def test_each_lane_of_a_process_has_one_guard() -> None:
    scenario = LaneScenario()
    guards = LaneGuards(
        limit=scenario.limit, tallies=scenario.tallies, clock=scenario.clock, metrics=scenario.metrics, owner="p1-1"
    )
    assert guards.guard_for("p1") is guards.guard_for("p1")
    assert guards.guard_for("p1") is not guards.guard_for("p2")


def test_stopped_lanes_are_listed() -> None:
    scenario = LaneScenario()
    assert stopped_lanes(scenario.tallies) == {}
    admitted(scenario.guard(), "r1", "r2", "r3", "r4")
    assert list(stopped_lanes(scenario.tallies)) == [LANE]


def test_processing_lanes_are_unique() -> None:
    assert len(PROCESSING_LANES) == len(set(PROCESSING_LANES))
