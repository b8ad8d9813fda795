"""During store failures users get cached pages, and one request probes each second."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.inbox.page_deadline_and_breaker import BREAKER_SETTINGS, StoreBreaker
from notifier.ports.inbox_cache_freshness import BurstChanges
from tests.flow.two_api_processes import Processes
from tests.support.in_memory_system import NOVA, Stage

FAILURES, WAIT = BREAKER_SETTINGS.failures_to_open, BREAKER_SETTINGS.open_for
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Failing:
    """A change feed that fails and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        async def refused(*args: object, **kwargs: object) -> object:
            self.calls += 1
            raise StoreUnavailable(name)

        return refused


@pytest.fixture
def processes() -> Processes:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(minutes=1)
    processes_ = Processes(stage)
    processes_.open(0)
    return processes_


def test_failing_store_is_probed_once_a_second(processes: Processes) -> None:
    inbox, failing = processes.inboxes[0], Failing()
    follower = inbox.facts.lookups.follower  # type: ignore[attr-defined] # the lookups here are unshared
    working, follower.changes = follower.changes, cast(BurstChanges, failing)
    processes.stage.pass_time(seconds=1)
    pages = [processes.open(0).page for _ in range(FAILURES + 20)]
    assert all(page.partial for page in pages)
    assert [[item.entry.key for item in page.items] for page in pages] == (FAILURES + 20) * [[BurstKey(NOVA, 1)]]
    assert failing.calls == FAILURES
    processes.stage.pass_time(seconds=WAIT.total_seconds())
    assert [processes.open(0).page.partial for _ in range(5)] == 5 * [True]
    assert failing.calls == FAILURES + 1
    follower.changes = working
    processes.stage.pass_time(seconds=WAIT.total_seconds())
    assert [processes.open(0).page.partial for _ in range(5)] == 5 * [False]


def test_breaker_opens_after_failures_in_a_row() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES - 1):
        breaker.record_failure(StoreUnavailable(), NOON)
    breaker.record_success(NOON)
    breaker.record_failure(StoreUnavailable(), NOON)
    assert breaker.allows(NOON)
    for _ in range(FAILURES):
        breaker.record_failure(StoreUnavailable(), NOON)
    assert not breaker.allows(NOON)


def test_one_caller_probes_after_each_wait() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES):
        breaker.record_failure(StoreUnavailable(), NOON)
    assert [breaker.allows(NOON + WAIT) for _ in range(3)] == [True, False, False]
    assert [breaker.allows(NOON + 2 * WAIT) for _ in range(3)] == [True, False, False]


def test_breaker_allows_calls_after_clock_moves_backwards() -> None:
    breaker = StoreBreaker()
    for _ in range(FAILURES):
        breaker.record_failure(StoreUnavailable(), NOON)
    assert breaker.allows(NOON - timedelta(hours=1))


def test_failure_that_requests_share_counts_once() -> None:
    breaker, error = StoreBreaker(), StoreUnavailable()
    for _ in range(BREAKER_SETTINGS.failures_to_open):
        breaker.record_failure(error, NOON)
    assert breaker.is_closed
