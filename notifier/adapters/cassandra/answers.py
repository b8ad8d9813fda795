"""Questions asked side by side: the driver's thread collects the answers and hands all of them over at once."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.together import Row
from notifier.mailbox import Mailbox

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
