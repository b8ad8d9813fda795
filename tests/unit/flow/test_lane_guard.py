"""Lane guard: several processes of one lane, restarts, a store that is away, and what is logged and measured."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit, LaneStop, LaneTally, LimitKind
from notifier.domain.errors import StoreUnavailable
from notifier.flow.lane_guard import READ_INTERVAL, WRITE_INTERVAL, LaneGuard, LaneGuards, stopped_lanes
from notifier.metrics import Metrics
from notifier.topics import LANES
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.dead_letters import MemoryLaneTallies

LANE = "mentions"


@dataclass
class Breakable:
    """Tallies that are out of reach on demand, and that count their calls."""

    inner: MemoryLaneTallies = field(default_factory=MemoryLaneTallies)
    away: bool = False
    reads: int = 0
    swaps: int = 0

    def read(self, lanes: Collection[str]) -> Mapping[str, LaneTally]:
        self.reads += 1
        self._answer()
        return self.inner.read(lanes)

    def swap(self, tally: LaneTally) -> LaneTally:
        self.swaps += 1
        self._answer()
        return self.inner.swap(tally)

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        return self.inner.resume(lane, operator, reason, now)

    def _answer(self) -> None:
        if self.away:
            raise StoreUnavailable()


@dataclass
class Scene:
    """One lane, its tallies, and as many processes as a test makes."""

    limit: DeadLetterLimit = field(default_factory=lambda: DeadLetterLimit(in_a_row=3, in_window=5, window=100))
    tallies: Breakable = field(default_factory=Breakable)
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
        self.clock.advance(READ_INTERVAL)

    def stored(self) -> LaneTally:
        return self.tallies.inner.read([LANE])[LANE]

    def gauge(self) -> float | None:
        return self.metrics.registry.get_sample_value("notifier_lane_stopped", {"lane": LANE})


def admitted(guard: LaneGuard, *records: str) -> list[bool]:
    return [guard.admit_death(record, "ValueError: no") for record in records]


def test_deaths_are_admitted_up_to_the_limit() -> None:
    scene = Scene()
    guard = scene.guard()
    assert admitted(guard, "r1", "r2", "r3", "r4", "r5") == [True, True, True, False, False]
    stop = guard.check()
    assert stop is not None
    assert (stop.kind, stop.record, stop.stopped_by) == (LimitKind.IN_A_ROW, "r4", "pump-1")


def test_restarted_process_goes_on_with_the_count_of_the_last_one() -> None:
    scene = Scene()
    assert admitted(scene.guard(), "r1", "r2") == [True, True]
    assert admitted(scene.guard("pump-2"), "r3", "r4") == [True, False]
    assert scene.guard("pump-3").check() is not None


def test_processes_of_a_lane_count_together() -> None:
    scene = Scene()
    first, second = scene.guard("pump-1"), scene.guard("pump-2")
    assert (first.check(), second.check()) == (None, None)
    answers = [admitted(guard, record)[0] for guard, record in zip([first, second] * 2, "abcd", strict=True)]
    assert answers == [True, True, True, False]


def test_stop_by_another_process_is_noticed_within_a_second() -> None:
    scene = Scene()
    second = scene.guard("pump-2")
    assert second.check() is None
    admitted(scene.guard(), "r1", "r2", "r3", "r4")
    scene.clock.advance(READ_INTERVAL)
    assert second.check() is not None


def test_lane_is_read_once_a_second() -> None:
    scene = Scene()
    guard = scene.guard()
    for _ in range(20):
        guard.check()
    assert scene.tallies.reads == 1


def test_resume_begins_with_an_empty_window() -> None:
    scene = Scene()
    guard = scene.guard()
    admitted(guard, "r1", "r2", "r3", "r4")
    scene.resume()
    assert guard.check() is None
    assert admitted(guard, "r4", "r5", "r6", "r7") == [True, True, True, False]


def test_lane_without_deaths_writes_nothing() -> None:
    scene = Scene()
    guard = scene.guard()
    for _ in range(100):
        guard.check()
        guard.record_successes(400)
        scene.clock.advance(timedelta(seconds=1))
    assert scene.tallies.swaps == 0


def test_successes_end_the_row_and_are_written_with_the_next_death() -> None:
    scene = Scene()
    guard = scene.guard()
    admitted(guard, "r1", "r2", "r3")
    guard.record_successes(7)
    assert admitted(guard, "r4") == [True]
    assert (scene.stored().seen, scene.stored().in_a_row) == (11, 1)


def test_successes_are_written_now_and_then_while_deaths_are_in_the_window() -> None:
    scene = Scene()
    guard = scene.guard()
    admitted(guard, "r1")
    scene.clock.advance(WRITE_INTERVAL)
    guard.record_successes(99)
    assert [death.record for death in scene.stored().deaths] == ["r1"]
    scene.clock.advance(WRITE_INTERVAL)
    guard.record_successes(1)
    assert scene.stored().deaths == ()
    assert scene.tallies.swaps == 3


def test_store_that_is_away_loses_no_success() -> None:
    scene = Scene()
    guard = scene.guard()
    admitted(guard, "r1")
    scene.tallies.away = True
    guard.record_successes(50)
    scene.tallies.away = False
    scene.clock.advance(WRITE_INTERVAL)
    guard.record_successes(50)
    assert scene.stored().deaths == ()


def test_unknown_lane_waits_for_the_store() -> None:
    scene = Scene(tallies=Breakable(away=True))
    with pytest.raises(StoreUnavailable):
        scene.guard().check()


def test_known_lane_goes_on_without_the_store_but_buries_nothing() -> None:
    scene = Scene()
    guard = scene.guard()
    assert guard.check() is None
    scene.tallies.away = True
    scene.clock.advance(READ_INTERVAL)
    assert guard.check() is None
    with pytest.raises(StoreUnavailable):
        guard.admit_death("r1", "ValueError: no")


def test_lane_that_others_change_all_the_time_is_an_outage() -> None:
    class Contended(Breakable):
        def swap(self, tally: LaneTally) -> LaneTally:
            stored = self.inner.read([tally.lane])[tally.lane]
            return self.inner.swap(LaneTally(lane=LANE, version=stored.version + 1, seen=stored.seen + 1))

    with pytest.raises(StoreUnavailable, match="all the time"):
        Scene(tallies=Contended()).guard().admit_death("r1", "ValueError: no")


def test_older_answer_of_the_store_does_not_replace_what_was_written() -> None:
    class Late(Breakable):
        def read(self, lanes: Collection[str]) -> Mapping[str, LaneTally]:
            return {lane: LaneTally(lane=lane) for lane in lanes}

    scene = Scene(tallies=Late())
    guard = scene.guard()
    admitted(guard, "r1", "r2", "r3", "r4")
    scene.clock.advance(READ_INTERVAL)
    assert guard.check() is not None


def test_recorded_stop_holds_where_the_limits_are_off() -> None:
    scene = Scene()
    admitted(scene.guard(), "r1", "r2", "r3", "r4")
    scene.limit = DeadLetterLimit(in_a_row=0, in_window=0)
    guard = scene.guard("pump-2")
    assert guard.check() is not None
    scene.resume()
    assert guard.check() is None
    assert admitted(guard, *map(str, range(200))) == [True] * 200


def test_stop_is_logged_once_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    guard = scene.guard()
    with caplog.at_level(logging.WARNING, "notifier.lanes"):
        admitted(guard, "r1", "r2", "r3", "r4")
        for _ in range(5):
            scene.clock.advance(READ_INTERVAL)
            guard.check()
        scene.resume()
        guard.check()
    stopped, resumed = caplog.records
    assert (stopped.levelname, resumed.levelname) == ("ERROR", "WARNING")
    fields = {name: vars(stopped)[name] for name in ("lane", "kind", "record", "stopped_by")}
    assert fields == {"lane": LANE, "kind": "in_a_row", "record": "r4", "stopped_by": "pump-1"}
    assert "mentions is stopped by its dead-letter limit: more than 3 died in a row; r4 waits" in stopped.message


def test_gauge_tells_whether_the_lane_is_stopped() -> None:
    scene = Scene()
    guard = scene.guard()
    guard.check()
    assert scene.gauge() == 0
    admitted(guard, "r1", "r2", "r3", "r4")
    assert scene.gauge() == 1
    scene.resume()
    guard.check()
    assert scene.gauge() == 0


def test_each_lane_of_a_process_has_one_guard() -> None:
    scene = Scene()
    guards = LaneGuards(
        limit=scene.limit, tallies=scene.tallies, clock=scene.clock, metrics=scene.metrics, owner="p1-1"
    )
    assert guards.guard_for("p1") is guards.guard_for("p1")
    assert guards.guard_for("p1") is not guards.guard_for("p2")


def test_stopped_lanes_are_found_among_all() -> None:
    scene = Scene()
    assert stopped_lanes(scene.tallies) == {}
    admitted(scene.guard(), "r1", "r2", "r3", "r4")
    assert list(stopped_lanes(scene.tallies)) == [LANE]
    assert len(LANES) == len(set(LANES)) == 14
