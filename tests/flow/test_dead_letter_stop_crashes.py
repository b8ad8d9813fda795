"""Crashes around a stop of a lane lose no record and exceed no dead-letter limit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from notifier import topics
from notifier.consumer_loop import StreamProcessor
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.errors import LaneStopped, Poison
from notifier.flow.dead_letter_lane_stops import LaneGuard
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import Logged, Record
from tests.support.simulator.durable_state import DurableState

LANE = topics.FOLLOWS
RECORDS = 8
LIMIT = DeadLetterLimit(in_a_row=3)
EFFECTS = ("compare_and_set", "put", "commit")
"""Durable effects of a pump: the count or the stop, the dead letter, the commit."""


class Killed(BaseException):
    """No code catches it, like SIGKILL."""


@dataclass
class Killer:
    """Kills the process at one of its effects, before or after it. The first effect is number 1."""

    at: int
    after: bool
    effects: int = 0

    def wrap(self, port: object) -> "KillablePort":
        return KillablePort(port, self)


@dataclass
class KillablePort:
    port: object
    killer: Killer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.port, name)
        if name not in EFFECTS:
            return method

        def effect(*arguments: object) -> Any:
            self.killer.effects += 1
            if self.killer.effects == self.killer.at and not self.killer.after:
                raise Killed
            result = method(*arguments)
            if self.killer.effects == self.killer.at:
                raise Killed
            return result

        return effect


@dataclass
class Deployments:
    """One lane with records, and successive processes that read it."""

    killer: Killer
    state: DurableState = field(default_factory=DurableState)
    starts: int = 0
    handled: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        values = [b"%d" % number for number in range(RECORDS)]
        self.state.log.append([Record(stream=LANE, key="nova", value=value) for value in values])

    def bad_release(self, records: Sequence[Logged]) -> None:
        raise Poison("The new release reads nothing.")

    def fixed_release(self, records: Sequence[Logged]) -> None:
        self.handled.update(record.record.value for record in records)

    def run_process(self, *, fixed: bool) -> None:
        """Run one process until it is idle. Raises LaneStopped and Killed."""
        self.starts += 1
        self.state.clock.advance(timedelta(seconds=6))  # the lease of the last process has expired
        state, owner, metrics = self.state, f"pump-{self.starts}", Metrics()
        guard = LaneGuard(
            lane=LANE,
            limit=LIMIT,
            tallies=self.killer.wrap(state.lane_tallies),
            clock=state.clock,
            metrics=metrics,
            owner=owner,
        )
        reader: Any = self.killer.wrap(state.log.subscribe(LANE, topics.GROUPS[LANE], owner))
        pump = StreamProcessor(
            name="graph_indexer",
            consumer=reader,
            stage=self.fixed_release if fixed else self.bad_release,
            dead_letters=self.killer.wrap(state.dead_letters),
            guard=guard,
            clock=state.clock,
            metrics=metrics,
        )
        while pump.step():
            pass

    def dead_records(self) -> set[bytes]:
        return {letter.body for letter in self.state.dead_letters.list(RECORDS)}

    def waiting_records(self) -> set[bytes]:
        return {logged.record.value for logged in self.state.log.read_uncommitted(LANE, topics.GROUPS[LANE], RECORDS)}

    def all_records(self) -> set[bytes]:
        return {record.value for records in self.state.log.partitions.values() for record in records}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 9))
def test_crash_around_a_stop_loses_nothing_and_keeps_the_limit(at: int, after: bool) -> None:
    lane = Deployments(Killer(at=at, after=after))
    for _ in range(4):  # a restart loop of the bad deployment
        with pytest.raises((Killed, LaneStopped)):
            lane.run_process(fixed=False)
        assert lane.dead_records() | lane.waiting_records() == lane.all_records()
        assert len(lane.dead_records()) <= LIMIT.in_a_row
    # Three counts and dead letters, and the stop. The commit follows only in a process that survives.
    assert lane.killer.effects >= 7
    assert lane.state.lane_tallies.read([LANE])[LANE].stop is not None
    lane.state.lane_tallies.resume(LANE, "ada", "fixed", lane.state.clock.now())
    lane.run_process(fixed=True)
    assert lane.waiting_records() == set()
    assert lane.dead_records() | lane.handled == lane.all_records()
    assert len(lane.dead_records()) == LIMIT.in_a_row


def test_restart_of_a_stopped_lane_adds_no_dead_letters() -> None:
    lane = Deployments(Killer(at=0, after=False))
    for _ in range(20):
        with pytest.raises(LaneStopped):
            lane.run_process(fixed=False)
    assert len(lane.dead_records()) == LIMIT.in_a_row
    assert len(lane.waiting_records()) == RECORDS - LIMIT.in_a_row


def test_resume_without_a_fix_adds_dead_letters_up_to_the_limit() -> None:
    lane = Deployments(Killer(at=0, after=False))
    counts = []
    for _ in range(2):
        with pytest.raises(LaneStopped):
            lane.run_process(fixed=False)
        counts.append(len(lane.dead_records()))
        lane.state.lane_tallies.resume(LANE, "ada", "bury them", lane.state.clock.now())
    lane.run_process(fixed=False)
    assert [*counts, len(lane.dead_records())] == [3, 6, 8]
