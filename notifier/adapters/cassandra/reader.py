"""Asking Cassandra from a loop of coroutines: no thread waits, and nobody waits for ever."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.translating import translated
from notifier.domain.errors import StoreUnavailable

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

    async def __call__(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """All rows. Raises StoreUnavailable when it takes too long; then a write may still take effect."""
        if self._waiting >= self._most:
            raise StoreUnavailable(f"{self._waiting} others wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await self._asked(statement, tuple(values))
        except TimeoutError as error:
            raise StoreUnavailable(f"No answer within {self._deadline.total_seconds():g} s.") from error
        finally:
            self._waiting -= 1

    async def each(self, statement: str, values: Iterable[Sequence[object]]) -> list[list[Any]]:
        """The answers to one question for each of the values, side by side, in their order."""
        room = asyncio.Semaphore(AT_ONCE)

        async def ask(some: Sequence[object]) -> list[Any]:
            async with room:
                return await self(statement, some)

        return await asyncio.gather(*map(ask, values))

    async def _asked(self, statement: str, values: tuple[object, ...]) -> list[Any]:
        # It blocks the first time: on a connection, and on a node that prepares.
        known = self._cluster.remembered(statement)
        prepared = known or await asyncio.to_thread(self._cluster.prepared, statement)
        with translated("A read failed"):
            future = self._cluster.session().execute_async(prepared, values)
            found = await _page(future)
            while future.has_more_pages:
                future.start_fetching_next_page()
                found += await _page(future)
        return found


async def _page(future: Any) -> list[Any]:
    """The driver answers in a thread of its own."""
    loop, answer = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def told(rows: object) -> None:
        if not answer.done():
            answer.set_result(rows)

    def failed(error: BaseException) -> None:
        if not answer.done():
            answer.set_exception(error)

    def soon(call: Any) -> Any:
        def hand_over(value: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever asked
                loop.call_soon_threadsafe(call, value)

        return hand_over

    future.add_callbacks(soon(told), soon(failed))
    try:
        return list(await answer or ())
    finally:
        future.clear_callbacks()
