"""Asking Cassandra from a loop of coroutines: no thread waits, and nobody waits for ever."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from notifier.adapters.cassandra.answers import Answers, Bound
from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row
from notifier.adapters.cassandra.translating import translated
from notifier.domain.errors import StoreUnavailable
from notifier.mailbox import Mailbox

DEADLINE = timedelta(seconds=2)
"""Who looks at a notification tab has looked away by then."""
WAITING = 2_000
"""Questions on their way; who came behind so many would be told of the deadline anyway."""
AT_ONCE = 50
"""Questions of one call on their way: thousands would take the places of all other calls."""


class Reader:
    """Connects with the first question, so that it may be made before a fork."""

    def __init__(self, cluster: Cluster, *, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        self._cluster = cluster
        self._deadline = deadline
        self._most = waiting
        self._waiting = 0
        self._mailbox: Mailbox | None = None

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
        if self._waiting >= self._most:
            raise StoreUnavailable(f"{self._waiting} others wait already.")
        self._waiting += places
        try:
            async with self.deadline():
                return await self._asked(questions)
        finally:
            self._waiting -= places

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """One deadline for everything that is asked within. Raises StoreUnavailable once it has passed."""
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"No answer within {self._deadline.total_seconds():g} s.") from error

    async def _asked(self, questions: Sequence[tuple[str, Row]]) -> list[list[Any]]:
        bound = [await self._bound(*question) for question in questions]
        if not bound:
            return []
        # It blocks the first time, on a connection; with a statement that was prepared it is there.
        answers = Answers(self._cluster.session(), bound, self._mail())
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

    def _mail(self) -> Mailbox:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = Mailbox(loop)
        return self._mailbox
