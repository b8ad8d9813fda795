"""Asynchronous queries of Cassandra with a deadline; no thread blocks while waiting."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.driver.batching import Row
from notifier.adapters.cassandra.driver.errors import translate_errors
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.bounded_executor import InFlightLimit
from notifier.mailbox import Mailbox, Mailboxes

# Concurrent queries: the driver's thread collects the results and delivers all of them at once.

BoundQuery = tuple[PreparedStatement, Row]


class ConcurrentQueries:
    """Results of concurrent queries. The first error ends all of them."""

    def __init__(self, session: Session, queries: Sequence[BoundQuery], mailbox: Mailbox) -> None:
        self.arrived: asyncio.Future[list[list[Any]]] = mailbox.loop.create_future()
        """Used by the event loop only. The driver's thread also uses all other attributes."""
        self._session = session
        self._queries = queries
        self._mailbox = mailbox
        self._rows: list[list[Any]] = [[] for _ in queries]
        self._in_flight: dict[int, Any] = {}
        """Driver futures by query number, until their results are here. A reference cycle would keep them alive."""
        self._error: BaseException | None = None
        self._stopped = False
        # Two threads count queries and results. `next` of a counter is atomic.
        self._query_numbers, self._result_numbers = count(), count(1)

    def start(self, max_in_flight: int) -> None:
        """Send the first `max_in_flight` queries. Each result sends the next query."""
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
        except Exception as error:  # for the waiting coroutine: this thread may be the driver's
            self._fail(error)
            return
        # Register the future first: if the result is already there, the callback runs at once, in this thread.
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
        if self.arrived.done():
            return
        if self._error is not None:
            self.arrived.set_exception(self._error)
        else:
            self.arrived.set_result(self._rows)


DEADLINE = timedelta(seconds=2)
"""Longest that a user who opened the inbox waits."""
MAX_WAITING = 2_000
"""Maximum queries in flight of all calls. A query behind so many would miss the deadline anyway."""
MAX_IN_FLIGHT_PER_CALL = 50
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
        """Run queries concurrently. At most MAX_IN_FLIGHT_PER_CALL are in flight. Return the results in their order.

        One deadline covers all queries. A query that is not sent by then is never sent. Raises StoreUnavailable.
        """
        slots = min(len(queries), MAX_IN_FLIGHT_PER_CALL)
        return await self._limit.run(slots, self._run, queries)

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
        # `session` blocks only while it connects. A statement is prepared by now, so the connection exists.
        concurrent = ConcurrentQueries(self._cluster.session(), bound, self._mailboxes.current())
        with translate_errors("A read failed"):
            try:
                concurrent.start(MAX_IN_FLIGHT_PER_CALL)
                return await concurrent.arrived
            finally:
                concurrent.stop()
                del concurrent  # breaks a cycle: the error refers to this frame, and the queries refer to the error

    async def _bind(self, statement: str, values: Row) -> BoundQuery:
        """Return the prepared statement and its values. Preparing and connecting block, so both run in a thread."""
        prepared = self._cluster.cached_statement(statement)
        return prepared or await asyncio.to_thread(self._cluster.prepare, statement), values
