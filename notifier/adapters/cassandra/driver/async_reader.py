"""Asking Cassandra from a loop of coroutines: no thread waits, and nobody waits for ever."""

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

# Questions asked side by side: the driver's thread collects the answers and hands all of them over at once.

Bound = tuple[PreparedStatement, Row]


class Answers:
    """The answers to some questions. The first error ends all of it."""

    def __init__(self, session: Session, questions: Sequence[Bound], mailbox: Mailbox) -> None:
        self.arrived: asyncio.Future[list[list[Any]]] = mailbox.loop.create_future()
        """Belongs to the loop; everything else is used by the driver's thread as well."""
        self._session = session
        self._questions = questions
        self._mailbox = mailbox
        self._rows: list[list[Any]] = [[] for _ in questions]
        self._going: dict[int, Any] = {}
        """The driver's futures by number, until they are answered: none may outlive its answer in a ring."""
        self._error: BaseException | None = None
        self._stopped = False
        # Two threads take numbers. `next` of a counter can't be interrupted by the other thread.
        self._asked, self._answered = count(), count(1)

    def ask(self, at_once: int) -> None:
        """Ask the first questions. Each answer asks the next one."""
        for _ in range(min(at_once, len(self._questions))):
            self._next()

    def stop(self) -> None:
        """Ask no more, and let go of what still arrives."""
        self._stopped = True
        for number in list(self._going):
            self._let_go(number)

    def _next(self) -> None:
        if self._stopped or (number := next(self._asked)) >= len(self._questions):
            return
        prepared, values = self._questions[number]
        try:
            future = self._session.execute_async(prepared, values)
        except Exception as error:  # also of the caller: whichever thread asks, the one that waits is told
            self._fail(error)
            return
        # First, because an answer may be there already: then it is taken at once, in this thread.
        self._going[number] = future
        future.add_callbacks(self._page, self._failed, (number,), errback_args=(number,))

    def _page(self, rows: Sequence[Any] | None, number: int) -> None:
        if (future := self._going.get(number)) is None:
            return
        if rows:
            self._rows[number] += rows
        if future.has_more_pages:
            try:
                future.start_fetching_next_page()
            except Exception as error:
                self._failed(error, number)
            return
        self._let_go(number)
        if next(self._answered) == len(self._questions):
            self._end()
        else:
            self._next()

    def _failed(self, error: BaseException, number: int) -> None:
        self._let_go(number)
        self._fail(error)

    def _let_go(self, number: int) -> None:
        if (future := self._going.pop(number, None)) is not None:
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
"""Who looks at a notification tab has looked away by then."""
WAITING = 2_000
"""Questions on their way; who came behind so many would be told of the deadline anyway."""
AT_ONCE = 50
"""Questions of one call on their way: thousands would take the places of all other calls."""


class CassandraReader:
    """Connects with the first question, so that it may be made before a fork."""

    def __init__(self, cluster: Cluster, *, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        self._cluster = cluster
        self._limit = InFlightLimit(most=waiting, deadline=deadline)
        self._mailboxes = Mailboxes()

    async def __call__(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows. Raises StoreUnavailable when it takes too long; then a write may still take effect."""
        [rows] = await self.all([(statement, tuple(values))])
        return rows

    async def each(self, statement: str, values: Iterable[Sequence[object]]) -> list[list[Any]]:
        """Ask one question for each of the values, side by side, and return the answers in their order."""
        return await self.all([(statement, tuple(some)) for some in values])

    async def all(self, questions: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        """Ask side by side, AT_ONCE at a time, and return the answers in their order.

        One deadline for all of them: what was not asked by then is never asked. Raises StoreUnavailable.
        """
        places = min(len(questions), AT_ONCE)
        return await self._limit.run(places, self._asked, questions)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """One deadline for everything that is asked within. Raises StoreUnavailable once it has passed."""
        try:
            async with asyncio.timeout(self._limit.deadline.total_seconds()):
                yield
        except TimeoutError as error:
            raise self._limit.too_late() from error

    async def _asked(self, questions: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        bound = [await self._bound(*question) for question in questions]
        if not bound:
            return []
        # It blocks the first time, on a connection; with a statement that was prepared it is there.
        answers = Answers(self._cluster.session(), bound, self._mailboxes.current())
        with translated("A read failed"):
            try:
                answers.ask(AT_ONCE)
                return await answers.arrived
            finally:
                answers.stop()
                del answers  # an error keeps this frame, and the answers keep the error

    async def _bound(self, statement: str, values: Row) -> Bound:
        """A node that prepares blocks, and so does a connection that isn't there yet."""
        known = self._cluster.remembered(statement)
        return known or await asyncio.to_thread(self._cluster.prepared, statement), values
