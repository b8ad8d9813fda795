"""Runs queries for coroutines, with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.error_translation import translate_errors
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.concurrency_and_time_limits import InFlightLimit
from notifier.event_loop_mailbox import Mailbox, RunningLoopMailbox

BoundQuery = tuple[PreparedStatement, Row]


class ConcurrentQueries:
    """Runs several queries concurrently. The first error ends all of them."""

    def __init__(self, session: Session, queries: Sequence[BoundQuery], mailbox: Mailbox) -> None:
        self.results: asyncio.Future[list[list[Any]]] = mailbox.loop.create_future()
        """Rows of each query. Only the event loop's thread may use this future."""
        self._session = session
        self._queries = queries
        self._mailbox = mailbox
        self._rows: list[list[Any]] = [[] for _ in queries]
        self._in_flight: dict[int, Any] = {}
        """Driver futures by query number, until their results arrive.

        A driver future and this object refer to each other. If finished futures stayed here, only the garbage collector
        would free the results.
        """
        self._error: BaseException | None = None
        self._stopped = False
        # The event loop's thread and the driver's thread may both take the next number: `next` of a counter is atomic.
        self._query_numbers, self._result_numbers = count(), count(1)

    def start(self, max_in_flight: int) -> None:
        """Send the first `max_in_flight` queries. The callbacks send the others."""
        for _ in range(min(max_in_flight, len(self._queries))):
            self._send_next()

    def stop(self) -> None:
        """Send no more queries and drop results that still arrive."""
        self._stopped = True
        for number in list(self._in_flight):
            self._forget(number)

    def _send_next(self) -> None:
        if self._stopped or (number := next(self._query_numbers)) >= len(self._queries):
            return
        prepared, values = self._queries[number]
        try:
            future = self._session.execute_async(prepared, values)
        except Exception as error:  # passed on to the waiting coroutine, because this may be the driver's thread
            self._fail(error)
            return
        # Store the future before adding the callbacks, which look for it. If the result is already there,
        # `add_callbacks` calls one of them at once.
        self._in_flight[number] = future
        future.add_callbacks(self._on_page, self._on_error, (number,), errback_args=(number,))

    def _on_page(self, rows: Sequence[Any] | None, number: int) -> None:
        if (future := self._in_flight.get(number)) is None:
            return
        if rows:
            self._rows[number] += rows
        if future.has_more_pages:
            try:
                future.start_fetching_next_page()
            except Exception as error:
                self._on_error(error, number)
            return
        self._forget(number)
        if next(self._result_numbers) == len(self._queries):
            self._finish()
        else:
            self._send_next()

    def _on_error(self, error: BaseException, number: int) -> None:
        self._forget(number)
        self._fail(error)

    def _forget(self, number: int) -> None:
        if (future := self._in_flight.pop(number, None)) is not None:
            future.clear_callbacks()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._stopped = True
        self._mailbox.put(self._deliver_results)
        self._mailbox.wake()

    def _deliver_results(self) -> None:
        if self.results.done():
            return
        if self._error is not None:
            self.results.set_exception(self._error)
        else:
            self.results.set_result(self._rows)


DEADLINE = timedelta(seconds=2)
MAX_IN_FLIGHT = 2_000
"""Limit of the queries in flight, of all calls together. At the limit, further calls fail at once.

They would probably miss the deadline.
"""
MAX_IN_FLIGHT_PER_CALL = 50
"""Maximum queries in flight per call. A call with thousands in flight could starve other calls."""


class AsyncQueries:
    """Runs queries for coroutines. The first query connects, so a process may create this object before it forks."""

    def __init__(self, cluster: Cluster, *, deadline: timedelta = DEADLINE, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._cluster = cluster
        self._limit = InFlightLimit(max_calls=max_in_flight, deadline=deadline)
        self._loop_mailbox = RunningLoopMailbox()

    async def __call__(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Run one statement and return all its rows.

        After StoreUnavailable, also at the deadline, a write may have taken effect, or may still do so.
        """
        [rows] = await self.query_all([(statement, tuple(values))])
        return rows

    async def query_each(self, statement: str, parameters: Iterable[Sequence[object]]) -> list[list[Any]]:
        """Run a statement concurrently for each item of `parameters`, and return the results in the same order."""
        return await self.query_all([(statement, tuple(values)) for values in parameters])

    async def query_all(self, queries: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        """Run queries concurrently, under one deadline, and return the results in the order of the queries."""
        in_flight = min(len(queries), MAX_IN_FLIGHT_PER_CALL)
        return await self._limit.run(in_flight, self._run, queries)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Apply one deadline to the block. Raises StoreUnavailable once the deadline has passed."""
        try:
            async with asyncio.timeout(self._limit.deadline.total_seconds()):
                yield
        except TimeoutError as error:
            raise self._limit.deadline_error() from error

    async def _run(self, queries: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        bound = [await self._bind(*query) for query in queries]
        if not bound:
            return []
        # `session` blocks only while it connects. The statements are prepared by now, so the connection exists.
        concurrent = ConcurrentQueries(self._cluster.session(), bound, self._loop_mailbox.current())
        with translate_errors("A query failed"):
            try:
                concurrent.start(MAX_IN_FLIGHT_PER_CALL)
                return await concurrent.results
            finally:
                concurrent.stop()
                del concurrent  # breaks a cycle: the object refers to its error, and the error to this frame

    async def _bind(self, statement: str, values: Row) -> BoundQuery:
        """Return the prepared statement and its values. Preparing and connecting block, so both run in a thread."""
        prepared = self._cluster.cached_statement(statement)
        return prepared or await asyncio.to_thread(self._cluster.prepare, statement), values
