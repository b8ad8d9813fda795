"""A change between any two steps of a read that is under way: whoever opens the inbox afterwards sees the change."""

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
from tests.cli.reads import reads_of
from tests.flow.inboxes import KIM, Processes, inbox_of
from tests.flow.suspended import Suspended, run_steps, run_to_end
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven

OLD, NEW = BurstKey(NOVA, 1), BurstKey(NOVA, 2)
MOST_STEPS = 200


@dataclass
class Situation:
    """Process 0 can be suspended at each of its port calls; process 1 never is."""

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
    found = Situation(stage, processes)
    if warm:
        assert found.open(0) == found.open(1) == ([OLD], 1)
    return found


def suspended(reads: ReadPorts) -> ReadPorts:
    names = ("people", "timeline", "burst_changes", "pull", "versions")
    gates: dict[str, Any] = {name: Suspended(getattr(reads, name)) for name in names}
    return replace(reads, **gates)


def mark(found: Situation, process: int) -> None:
    """Mark in one go, also in process 0, whose ports suspend."""
    run_to_end(found.processes.inboxes[process].mark(KIM, [OLD], Mark.HIDDEN))


def delete(found: Situation) -> None:
    found.stage.say(DELETED_TYPE, tweet="t1", author="ada")


def unfollow(found: Situation) -> None:
    found.stage.followed("kim", "nova", sequence=9, ended=True)


def wipe_and_unfollow(found: Situation) -> None:
    found.stage.ground.wipe()
    unfollow(found)


CHANGES: dict[str, tuple[Callable[[Situation], None], tuple[list[BurstKey], int]]] = {
    "hidden here": (lambda found: mark(found, 0), ([], 0)),
    "hidden in another process": (lambda found: mark(found, 1), ([], 0)),
    "deleted": (delete, ([], 0)),
    "mentioned": (lambda found: found.stage.mention("nova", of="t2"), ([NEW, OLD], 2)),
    "unfollowed": (unfollow, ([], 0)),
    "wiped and unfollowed": (wipe_and_unfollow, ([], 0)),
}


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_cache_stale_never_shown_with_change_between_two_steps(name: str, *, warm: bool) -> None:
    change, expected = CHANGES[name]
    steps = 0
    while steps < MOST_STEPS:
        found = situation(warm=warm)
        if warm:  # the facts are read anew, and the lists are there
            found.processes.inboxes[0].viewers.distrust(found.processes.stage.ground.clock.now())
        reading = found.processes.inboxes[0].open(KIM)
        ended = run_steps(reading, steps)
        change(found)
        if steps % 2:  # another request of the process, before the first one has its answer
            assert found.open(0) == expected, f"after {steps} steps, beside it"
        if ended is None:
            run_to_end(reading)
        for process in (0, 1, 0):
            assert found.open(process) == expected, f"after {steps} steps, in process {process}"
        if ended is not None:
            break
        steps += 1
    assert 5 < steps < MOST_STEPS


@pytest.mark.parametrize("dies", [True, False])
def test_cache_stale_never_shown_around_change_that_is_under_way(*, dies: bool) -> None:
    """Both processes open between any two steps of the writer, which goes on, or dies there."""
    steps, ended = 0, False
    while not ended:
        found = situation(warm=True)
        marking = found.processes.inboxes[0].mark(KIM, [OLD], Mark.HIDDEN)
        ended = step_through(marking, steps)
        between = found.open(1)[0]
        if dies:
            marking.close()
        elif not ended:
            run_to_end(marking)
        member = driven(found.stage.ground.people.member(KIM))
        assert member is not None
        marks = driven(found.stage.ground.people.viewer(KIM, member)).marks
        stored = [] if marks.by_burst.get(OLD) is Mark.HIDDEN else [OLD]
        assert found.open(1)[0] == found.open(0)[0] == stored, f"after {steps} steps"
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
