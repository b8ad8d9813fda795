"""Asking SQLite from a loop of coroutines: a few threads wait in its place, and nobody waits for ever."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import ParamSpec, TypeVar

from notifier.domain.errors import StoreUnavailable

THREADS = 4
"""Reads take well under a millisecond: more threads would only wait for the interpreter's lock."""

WRITERS = 2
"""A file has room for one writer at a time; while one waits for the disk, the next is ready."""

DEADLINE = timedelta(seconds=2)
"""Who looks at a notification tab has looked away by then."""

WAITING = 1_000
"""Questions on their way; at a millisecond each, who came behind them would be told of the deadline anyway."""

P = ParamSpec("P")
T = TypeVar("T")


class Reader:
    """Starts its threads with the first question, so that it may be made before a fork."""

    def __init__(self, *, threads: int = THREADS, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sqlite")
        self._deadline = deadline
        self._most = waiting
        self._waiting = 0

    async def __call__(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer. Raises StoreUnavailable when it takes too long; then a write may still take effect.

        A question that was still waiting for a thread is never asked, and one that finds too many others is refused at
        once.
        """
        if self._waiting >= self._most:
            raise StoreUnavailable(f"{self._waiting} others wait already.")
        self._waiting += 1
        try:
            return await self._answered(self._threads.submit(ask, *args, **kwargs))
        finally:
            self._waiting -= 1

    async def _answered(self, question: Future[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await asyncio.wrap_future(question)
        except TimeoutError as error:
            raise StoreUnavailable(f"No answer within {self._deadline.total_seconds():g} s.") from error

    def close(self) -> None:
        """Waits for the answers that are on their way."""
        self._threads.shutdown(cancel_futures=True)


class Writer(Reader):
    """Threads for writes alone: those that wait for a locked file hold up no read."""

    def __init__(self, *, threads: int = WRITERS, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        super().__init__(threads=threads, deadline=deadline, waiting=waiting)
