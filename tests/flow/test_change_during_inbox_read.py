"""A change at any step of a running read is visible to every later open."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import pytest

from notifier.domain.ids import BurstKey
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.visibility import Mark
from notifier.metrics import Metrics
from notifier.ports.all_ports import ReadPorts
from notifier.wiring.delivery import build_reconciler
from tests.cli.in_memory_read_ports import reads_of
from tests.flow.suspending_port import Suspended, run_steps, run_to_end
from tests.flow.two_api_processes import KIM, Processes, inbox_of
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

OLD, NEW = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
MOST_STEPS = 200


@dataclass
class Situation:
    """Process 0 suspends at each of its port calls; process 1 never does."""

    stage: Stage
    processes: Processes

    def open(self, process: int) -> tuple[list[BurstKey], int]:
        opening = run_to_end(self.processes.inboxes[process].open(KIM))
        assert opening.badge is not None
        return [item.entry.key for item in opening.page.items], opening.badge.count


def situation(*, warm: bool) -> Situation:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=2)
    build_reconciler(stage.system())()
    processes = Processes(stage)
    processes.inboxes[0] = inbox_of(suspended(reads_of(stage)), Metrics())
    case_ = Situation(stage, processes)
    if warm:
        assert case_.open(0) == case_.open(1) == ([OLD], 1)
    return case_


def suspended(reads: ReadPorts) -> ReadPorts:
    names = ("people", "timeline", "burst_changes", "pull", "versions")
    gates: dict[str, Any] = {name: Suspended(getattr(reads, name)) for name in names}
    return replace(reads, **gates)


def mark(case_: Situation, process: int) -> None:
    """Mark without suspension, also in process 0."""
    run_to_end(case_.processes.inboxes[process].mark(KIM, [OLD], Mark.HIDDEN))


def delete(case_: Situation) -> None:
    case_.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")


def unfollow(case_: Situation) -> None:
    case_.stage.followed("kim", "nova", sequence=9, ended=True)


def wipe_and_unfollow(case_: Situation) -> None:
    case_.stage.state.wipe()
    unfollow(case_)


CHANGES: dict[str, tuple[Callable[[Situation], None], tuple[list[BurstKey], int]]] = {
    "hidden here": (lambda case_: mark(case_, 0), ([], 0)),
    "hidden in another process": (lambda case_: mark(case_, 1), ([], 0)),
    "deleted": (delete, ([], 0)),
    "mentioned": (lambda case_: case_.stage.mention("nova", of="t2"), ([NEW, OLD], 2)),
    "unfollowed": (unfollow, ([], 0)),
    "wiped and unfollowed": (wipe_and_unfollow, ([], 0)),
}


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_cache_stale_never_shown_after_a_change_during_a_read(name: str, *, warm: bool) -> None:
    change, expected = CHANGES[name]
    steps = 0
    while steps < MOST_STEPS:
        case_ = situation(warm=warm)
        if warm:  # the facts are reloaded, and the lists are cached
            case_.processes.inboxes[0].viewers.distrust(case_.processes.stage.state.clock.now())
        reading = case_.processes.inboxes[0].open(KIM)
        result = run_steps(reading, steps)
        change(case_)
        if steps % 2:  # another request of the process before the first one has its response
            assert case_.open(0) == expected, f"after {steps} steps, in a concurrent request"
        if result is None:
            run_to_end(reading)
        for process in (0, 1, 0):
            assert case_.open(process) == expected, f"after {steps} steps, in process {process}"
        if result is not None:
            break
        steps += 1
    assert 5 < steps < MOST_STEPS


@pytest.mark.parametrize("crashes", [True, False])
def test_cache_stale_never_shown_during_a_change(*, crashes: bool) -> None:
    """Both processes open between any two steps of the writer, which continues or crashes there."""
    steps, ended = 0, False
    while not ended:
        case_ = situation(warm=True)
        marking = case_.processes.inboxes[0].mark(KIM, [OLD], Mark.HIDDEN)
        ended = step_through(marking, steps)
        between = case_.open(1)[0]
        if crashes:
            marking.close()
        elif not ended:
            run_to_end(marking)
        member = run_sync(case_.stage.state.people.member(KIM))
        assert member is not None
        marks = run_sync(case_.stage.state.people.viewer(KIM, member)).marks
        stored = [] if marks.by_burst.get(OLD) is Mark.HIDDEN else [OLD]
        assert case_.open(1)[0] == case_.open(0)[0] == stored, f"after {steps} steps"
        assert between or not stored, f"after {steps} steps an item came back"
        steps += 1
    assert 5 < steps < MOST_STEPS


def step_through(request: Coroutine[object, None, None], steps: int) -> bool:
    """Return whether the request ended within so many steps."""
    for _ in range(steps):
        try:
            request.send(None)
        except StopIteration:
            return True
    return False
