"""Inbox pages stay current after cache evictions, late messages and cache restarts."""

from typing import cast

import pytest

from notifier.domain.ids import BurstKey, UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.ports.inbox import Timeline
from notifier.ports.inbox_cache_freshness import MAX_CHANGED_BURSTS
from notifier.wiring.delivery import build_reconciler
from tests.flow.suspending_port import Suspended, run_steps, run_to_end
from tests.flow.two_api_processes import KIM, Processes, warm_processes
from tests.support.in_memory_system import NOVA, Stage

FIRST = BurstKey(NOVA, 1)


@pytest.fixture
def processes() -> Processes:
    return warm_processes()


def test_page_is_current_after_its_subject_was_evicted(processes: Processes) -> None:
    """The page stays cached, but its process no longer follows changes of its subjects."""
    processes.inboxes[0].subject_cache.max_bytes = 1
    processes.open(0, UserId("lee"))
    processes.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == []


def test_page_is_current_when_the_cache_is_too_small() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    processes = Processes(stage)
    processes.inboxes[0].subject_cache.max_bytes = 1
    assert processes.shown(0) == [str(FIRST)]
    stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    assert processes.shown(0) == []


def test_page_is_current_after_a_late_message_of_an_older_state(processes: Processes) -> None:
    """A writer that got no answer publishes again, after another writer retracted the burst."""
    bus = processes.stage.state.bus
    [message] = [burst for burst in bus.published if burst.key == FIRST]
    processes.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    processes.inboxes[0] = Processes(processes.stage).inboxes[0]
    processes.open(0, UserId("ada"))  # the new process follows changes and has cached nothing of nova
    bus.publish([message])
    assert processes.shown(0) == []


def test_page_is_current_after_a_read_from_before_a_cache_restart(processes: Processes) -> None:
    """The feed had more changes than a process catches up with, while a request read the burst."""
    state, inbox = processes.stage.state, processes.inboxes[0]
    inbox.subject_cache.bursts.clear()
    inbox.viewers.viewers[KIM].first_pages.clear()
    reading = inbox.open(KIM)
    inbox.subject_cache.timeline = cast(Timeline, Suspended(inbox.subject_cache.timeline, "bursts"))
    run_steps(reading, 2)  # the burst has been read, and the response is on its way
    processes.stage.send_event(DELETED_TYPE, tweet="t1", author="ada")
    state.bursts.changes += [BurstKey(NOVA, 1_000 + n) for n in range(MAX_CHANGED_BURSTS + 1)]
    processes.stage.pass_time(seconds=1)
    state.bus.stream.clear()
    build_reconciler(processes.stage.system())()  # the next list comes from the index, which has no bodies
    processes.open(0, UserId("ada"))
    run_to_end(reading)
    inbox.subject_cache.timeline = state.timeline
    assert processes.shown(0) == []
