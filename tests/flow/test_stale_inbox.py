"""Whatever becomes of caches and invalidations, no process shows a state that is older than a change it was told of."""

import pytest

from notifier.domain.event import DELETED_TYPE
from notifier.domain.subject import BurstKey, UserId
from tests.flow.inboxes import Processes
from tests.flow.stage import NOVA, Stage

FIRST = BurstKey(NOVA, 1)


@pytest.fixture
def processes() -> Processes:
    """Kim follows nova, who was mentioned; both processes have shown it."""
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    found = Processes(stage)
    assert found.shown(0) == found.shown(1) == [str(FIRST)]
    return found


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
