"""A failed write without a placeholder in Redis is recorded as a lapse."""

import asyncio

import pytest

from notifier.domain.errors import DiskFull, NotifierError, StoreUnavailable, UnusableEnvironment
from notifier.flow.inbox.viewer_facts_invalidation_and_check import AsyncInvalidation, Invalidation
from notifier.ports.inbox_cache_freshness import ALL_MEMBERS
from tests.support.fakes.inbox_cache_freshness import MemoryViewerVersionReader, MemoryViewerVersionWriter
from tests.support.in_memory_system import Stage

OUTAGES = [StoreUnavailable("The store is away."), DiskFull("The disk is full."), UnusableEnvironment("No keyspace.")]


class Lapses:
    def __init__(self, error: NotifierError | None = None) -> None:
        self.error = error
        self.recorded = 0

    def record(self) -> None:
        if self.error is not None:
            raise self.error
        self.recorded += 1


class Changes:
    """A change feed that only counts lapses, or fails."""

    def __init__(self, error: NotifierError | None = None) -> None:
        self.error = error
        self.lapses = 0

    async def record_viewer_lapse(self) -> None:
        if self.error is not None:
            raise self.error
        self.lapses += 1


@pytest.mark.parametrize("redis_down", [False, True])
def test_failed_write_without_a_placeholder_records_a_lapse(redis_down: bool) -> None:
    state, lapses = Stage().state, Lapses()
    state.versions.away = redis_down
    invalidation = Invalidation(versions=MemoryViewerVersionWriter(state.versions), lapses=lapses, nonces=state.nonces)
    with pytest.raises(StoreUnavailable), invalidation.changing([ALL_MEMBERS]):
        raise StoreUnavailable("The answer is lost.")
    assert lapses.recorded == redis_down


@pytest.mark.parametrize("redis_down", [False, True])
def test_failed_user_write_without_a_placeholder_records_a_lapse(redis_down: bool) -> None:
    state, changes = Stage().state, Changes()
    state.versions.away = redis_down
    invalidation = AsyncInvalidation(
        versions=MemoryViewerVersionReader(state.versions),
        changes=changes,  # type: ignore[arg-type] # only the method that is called
        nonces=state.nonces,
    )

    async def write() -> None:
        async with invalidation.changing([ALL_MEMBERS]):
            raise StoreUnavailable("The answer is lost.")

    with pytest.raises(StoreUnavailable):
        asyncio.run(write())
    assert changes.lapses == redis_down


@pytest.mark.parametrize("error", OUTAGES)
def test_failed_lapse_does_not_hide_the_error_of_the_write(error: NotifierError) -> None:
    state = Stage().state
    state.versions.away = True
    invalidation = Invalidation(
        versions=MemoryViewerVersionWriter(state.versions), lapses=Lapses(error), nonces=state.nonces
    )
    with pytest.raises(StoreUnavailable, match="The answer is lost"), invalidation.changing([ALL_MEMBERS]):
        raise StoreUnavailable("The answer is lost.")


@pytest.mark.parametrize("error", OUTAGES)
def test_failed_lapse_does_not_hide_the_error_of_a_user_write(error: NotifierError) -> None:
    state = Stage().state
    state.versions.away = True
    invalidation = AsyncInvalidation(
        versions=MemoryViewerVersionReader(state.versions),
        changes=Changes(error),  # type: ignore[arg-type] # only the method that is called
        nonces=state.nonces,
    )

    async def write() -> None:
        async with invalidation.changing([ALL_MEMBERS]):
            raise StoreUnavailable("The answer is lost.")

    with pytest.raises(StoreUnavailable, match="The answer is lost"):
        asyncio.run(write())
