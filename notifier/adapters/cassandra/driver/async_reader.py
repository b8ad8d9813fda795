"""Asynchronous reads from Cassandra with a deadline; no thread blocks while waiting."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.errors import translated
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.bounded_executor import InFlightLimit
from notifier.mailbox import Mailbox, Mailboxes

# Concurrent queries: the driver's thread collects the results and delivers all of them at once.

Bound = tuple[PreparedStatement, Row]


class ConcurrentQueries:
    """Results of concurrent queries. The first error ends all of them."""

    def __init__(self, session: Session, queries: Sequence[Bound], mailbox: Mailbox) -> None:
        self.arrived: asyncio.Future[list[list[Any]]] = mailbox.loop.create_future()
        """Belongs to the event loop. The driver's thread uses all other attributes, too."""
        self._session = session
        self._questions = queries
        self._mailbox = mailbox
        self._rows: list[list[Any]] = [[] for _ in queries]
        self._in_flight: dict[int, Any] = {}
        """Driver futures by query number, until they are answered. A reference cycle must not keep one any longer."""
        self._error: BaseException | None = None
        self._stopped = False
        # Two threads take numbers. `next` of a counter is atomic.
        self._asked, self._answered = count(), count(1)

    def start(self, at_once: int) -> None:
        """Send the first `at_once` queries. Each result sends the next query."""
        for _ in range(min(at_once, len(self._questions))):
            self._next()

    def stop(self) -> None:
        """Send no more queries and drop results that still arrive."""
        self._stopped = True
        for number in list(self._in_flight):
            self._forget(number)

    def _next(self) -> None:
        if self._stopped or (number := next(self._asked)) >= len(self._questions):
            return
        prepared, values = self._questions[number]
        try:
            future = self._session.execute_async(prepared, values)
        except Exception as error:  # reported to the waiting coroutine, whichever thread sends the query
            self._fail(error)
            return
        # Register the future first: if the result is already there, the callback runs at once, in this thread.
        self._in_flight[number] = future
        future.add_callbacks(self._page, self._failed, (number,), errback_args=(number,))

    def _page(self, rows: Sequence[Any] | None, number: int) -> None:
        if (future := self._in_flight.get(number)) is None:
            return
        if rows:
            self._rows[number] += rows
        if future.has_more_pages:
            try:
                future.start_fetching_next_page()
            except Exception as error:
                self._failed(error, number)
            return
        self._forget(number)
        if next(self._answered) == len(self._questions):
            self._end()
        else:
            self._next()

    def _failed(self, error: BaseException, number: int) -> None:
        self._forget(number)
        self._fail(error)

    def _forget(self, number: int) -> None:
        if (future := self._in_flight.pop(number, None)) is not None:
            future.clear_callbacks()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._stopped = True
        self._mailbox.put(self._hand_over)
        self._mailbox.wake()

    def _hand_over(self) -> None:
        if self.arrived.done():
            return
        if self._error is not None:
            self.arrived.set_exception(self._error)
        else:
            self.arrived.set_result(self._rows)


DEADLINE = timedelta(seconds=2)
"""A user who opened the inbox has looked away by then."""
MAX_WAITING = 2_000
"""Maximum queries in flight. A query behind so many would miss the deadline anyway."""
AT_ONCE = 50
"""Maximum queries in flight per call. Thousands would starve all other calls."""


class CassandraReader:
    """Runs queries for coroutines. It connects with the first query, so that it may be created before a fork."""

    def __init__(self, cluster: Cluster, *, deadline: timedelta = DEADLINE, max_waiting: int = MAX_WAITING) -> None:
        self._cluster = cluster
        self._limit = InFlightLimit(max_calls=max_waiting, deadline=deadline)
        self._mailboxes = Mailboxes()

    async def __call__(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows. Raises StoreUnavailable at the deadline; a write may still take effect."""
        [rows] = await self.query_all([(statement, tuple(values))])
        return rows

    async def query_each(self, statement: str, values: Iterable[Sequence[object]]) -> list[list[Any]]:
        """Run one statement for each of the values concurrently. Return the results in their order."""
        return await self.query_all([(statement, tuple(parameters)) for parameters in values])

    async def query_all(self, queries: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        """Run queries concurrently, AT_ONCE at a time. Return the results in their order.

        One deadline covers all of them. Queries that are not sent by then are never sent. Raises StoreUnavailable.
        """
        places = min(len(queries), AT_ONCE)
        return await self._limit.run(places, self._run, queries)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Apply one deadline to all queries inside the block. Raises StoreUnavailable once it has passed."""
        try:
            async with asyncio.timeout(self._limit.deadline.total_seconds()):
                yield
        except TimeoutError as error:
            raise self._limit.deadline_error() from error

    async def _run(self, queries: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        bound = [await self._bind(*query) for query in queries]
        if not bound:
            return []
        # `session` blocks while it connects for the first time. Once a statement is prepared, the connection exists.
        answers = ConcurrentQueries(self._cluster.session(), bound, self._mailboxes.current())
        with translated("A read failed"):
            try:
                answers.start(AT_ONCE)
                return await answers.arrived
            finally:
                answers.stop()
                del answers  # breaks a cycle: the error holds this frame, and the answers hold the error

    async def _bind(self, statement: str, values: Row) -> Bound:
        """Return the prepared statement and its values. Preparing and connecting block, so both run in a thread."""
        known = self._cluster.cached_statement(statement)
        return known or await asyncio.to_thread(self._cluster.prepare, statement), values
