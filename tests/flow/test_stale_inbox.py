"""Whatever becomes of caches and invalidations, no process shows a state that is older than a change it was told of."""

from typing import cast

import pytest

from notifier.domain.ids import BurstKey, UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.ports.inbox import Timeline
from notifier.ports.inbox_versions import MOST
from notifier.wiring.delivery import build_reconciler
from tests.flow.inboxes import KIM, Processes, both_shown
from tests.flow.suspended import Suspended, run_steps, run_to_end
from tests.support.in_memory_system import NOVA, Stage

FIRST = BurstKey(NOVA, 1)


@pytest.fixture
def processes() -> Processes:
    return both_shown()


def test_cache_stale_never_shown_after_subject_left_the_cache(processes: Processes) -> None:
    """The page stays, but its process no longer follows what changes in its subjects."""
    processes.inboxes[0].subjects.most_bytes = 1
    processes.open(0, UserId("lee"))
    processes.stage.say(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == []


def test_cache_stale_never_shown_by_cache_too_small_for_one_page() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    processes = Processes(stage)
    processes.inboxes[0].subjects.most_bytes = 1
    assert processes.shown(0) == [str(FIRST)]
    stage.say(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == []


def test_cache_stale_never_shown_after_late_word_of_older_state(processes: Processes) -> None:
    """A writer whose word was in doubt says it again, after another one has retracted the burst."""
    bus = processes.stage.ground.bus
    [word] = [burst for burst in bus.heard if burst.key == FIRST]
    processes.stage.say(DELETED_TYPE, tweet="t1", author="ada")
    processes.inboxes[0] = Processes(processes.stage).inboxes[0]
    processes.open(0, UserId("ada"))  # the new process follows what changes, and has nothing of nova
    bus.publish([word])
    assert processes.shown(0) == []


def test_cache_stale_never_shown_by_read_from_before_the_cache_began_anew(processes: Processes) -> None:
    """The feed had more changes than a process catches up with while one of its requests was reading the burst."""
    ground, inbox = processes.stage.ground, processes.inboxes[0]
    inbox.subjects.bursts.clear()
    inbox.viewers.distrust(ground.clock.now())
    reading = inbox.open(KIM)
    inbox.subjects.timeline = cast(Timeline, Suspended(inbox.subjects.timeline, "bursts"))
    run_steps(reading, 2)  # the burst is read, and the answer under way
    processes.stage.say(DELETED_TYPE, tweet="t1", author="ada")
    ground.bursts.changes += [BurstKey(NOVA, 1_000 + n) for n in range(MOST + 1)]
    processes.stage.pass_time(seconds=1)
    ground.bus.news.clear()
    build_reconciler(processes.stage.system())()  # so that the next list comes from the index, without bursts
    processes.open(0, UserId("ada"))
    run_to_end(reading)
    inbox.subjects.timeline = ground.timeline
    assert processes.shown(0) == []
