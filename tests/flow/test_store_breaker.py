"""While the store fails, users who were shown a page get it again at once; one of them tries the store each second."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.inbox.store_breaker import TERMS, StoreBreaker
from notifier.ports.inbox_versions import BurstChanges
from tests.flow.inboxes import Processes
from tests.support.in_memory_system import NOVA, Stage

FAILURES, REST = TERMS.failures, TERMS.rest
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Failing:
    """A change feed that fails, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        async def refused(*given: object, **named: object) -> object:
            self.asked += 1
            raise StoreUnavailable(name)

        return refused


@pytest.fixture
def processes() -> Processes:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    found = Processes(stage)
    found.open(0)
    return found


def test_failing_store_is_asked_once_a_second(processes: Processes) -> None:
    inbox, failing = processes.inboxes[0], Failing()
    follower = inbox.facts.looks.follower  # type: ignore[attr-defined] # of the looks that share nothing
    working, follower.changes = follower.changes, cast(BurstChanges, failing)
    processes.stage.pass_time(seconds=1)
    pages = [processes.open(0).page for _ in range(FAILURES + 20)]
    assert all(page.partial for page in pages)
    assert [[item.entry.key for item in page.items] for page in pages] == (FAILURES + 20) * [[BurstKey(NOVA, 1)]]
    assert failing.asked == FAILURES
    processes.stage.pass_time(seconds=REST.total_seconds())
    assert [processes.open(0).page.partial for _ in range(5)] == 5 * [True]
    assert failing.asked == FAILURES + 1
    follower.changes = working
    processes.stage.pass_time(seconds=REST.total_seconds())
    assert [processes.open(0).page.partial for _ in range(5)] == 5 * [False]


def test_breaker_opens_after_failures_in_a_row() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES - 1):
        breaker.failed(NOON)
    breaker.worked(NOON)
    breaker.failed(NOON)
    assert breaker.allows(NOON)
    for _ in range(FAILURES):
        breaker.failed(NOON)
    assert not breaker.allows(NOON)


def test_one_caller_tries_after_each_rest() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES):
        breaker.failed(NOON)
    assert [breaker.allows(NOON + REST) for _ in range(3)] == [True, False, False]
    assert [breaker.allows(NOON + 2 * REST) for _ in range(3)] == [True, False, False]


def test_clock_that_was_set_back_keeps_nobody_waiting() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES):
        breaker.failed(NOON)
    assert breaker.allows(NOON - timedelta(hours=1))
