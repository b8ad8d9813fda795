"""Concurrent Cassandra queries: concurrency limit, paging, errors and what the event loop receives."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.driver.async_queries import ConcurrentQueries
from notifier.event_loop_mailbox import Mailbox


@dataclass
class FakeFuture:
    """The used part of the driver's future; each test answers it by hand."""

    value: int
    more_pages: int = 0
    callbacks: list[tuple[Callable[..., None], Callable[..., None], tuple[int]]] = field(default_factory=list)

    @property
    def has_more_pages(self) -> bool:
        return self.more_pages > 0

    def add_callbacks(
        self, page: Callable[..., None], failed: Callable[..., None], args: tuple[int], errback_args: tuple[int]
    ) -> None:
        self.callbacks.append((page, failed, args))

    def clear_callbacks(self) -> None:
        self.callbacks.clear()

    def start_fetching_next_page(self) -> None:
        self.more_pages -= 1

    def answer(self, rows: list[Any]) -> None:
        for page, _, args in list(self.callbacks):
            page(rows, *args)

    def fail(self, error: Exception) -> None:
        for _, failed, args in list(self.callbacks):
            failed(error, *args)


@dataclass
class FakeSession:
    futures: list[FakeFuture] = field(default_factory=list)
    refuses: Exception | None = None

    def execute_async(self, prepared: object, values: tuple[int]) -> FakeFuture:
        if self.refuses is not None:
            raise self.refuses
        self.futures.append(FakeFuture(values[0]))
        return self.futures[-1]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def start_queries(session: FakeSession, mailbox: Mailbox, count: int, concurrency: int = 2) -> ConcurrentQueries:
    queries = ConcurrentQueries(
        cast(Session, session), [(cast(PreparedStatement, None), (n,)) for n in range(count)], mailbox
    )
    queries.start(concurrency)
    return queries


def result(loop: asyncio.AbstractEventLoop, queries: ConcurrentQueries) -> Any:
    return loop.run_until_complete(asyncio.wait_for(queries.results, 10))


def test_each_response_starts_next_query(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 5)
    for number in (1, 0, 3, 2, 4):
        assert len(session.futures) - sum(not future.callbacks for future in session.futures) <= 2
        session.futures[number].answer([number])
    assert [future.value for future in session.futures] == [0, 1, 2, 3, 4]
    assert result(loop, queries) == [[0], [1], [2], [3], [4]]


def test_pages_are_joined_into_one_result(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 1)
    session.futures[0].more_pages = 2
    for page in ([1, 2], [], [3]):
        session.futures[0].answer(page)
    assert result(loop, queries) == [[1, 2, 3]]


def test_write_returns_no_rows(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 1)
    for page, _, args in list(session.futures[0].callbacks):
        page(None, *args)
    assert result(loop, queries) == [[]]


def test_first_error_stops_remaining_queries(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 9)
    session.futures[1].fail(ValueError("on purpose"))
    session.futures[0].answer([0])
    assert len(session.futures) == 2
    with pytest.raises(ValueError, match="on purpose"):
        result(loop, queries)


def test_query_that_cannot_be_sent_raises_its_error(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 3)
    session.refuses = ValueError("no session")
    session.futures[0].answer([0])
    with pytest.raises(ValueError, match="no session"):
        result(loop, queries)


def test_no_query_starts_after_stop(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 5)
    late_callbacks = [callback for future in session.futures for callback in future.callbacks]
    queries.stop()
    assert [future.callbacks for future in session.futures] == [[], []]
    for page, _, args in late_callbacks:  # the driver was about to call it when the deadline passed
        page([1], *args)
    assert len(session.futures) == 2


def test_finished_futures_keep_no_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """A kept callback would hold the response in a reference cycle."""
    session = FakeSession()
    queries = start_queries(session, Mailbox(loop), 4)
    for number in (0, 1, 2):
        session.futures[number].answer([])
    session.futures[3].fail(ValueError("on purpose"))
    assert [future.callbacks for future in session.futures] == [[]] * 4
    with pytest.raises(ValueError, match="on purpose"):
        result(loop, queries)


def test_response_after_loop_close_is_dropped() -> None:
    loop, session = asyncio.new_event_loop(), FakeSession()
    start_queries(session, Mailbox(loop), 1)
    loop.close()
    session.futures[0].answer([])
