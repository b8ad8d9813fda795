"""Asking SQLite from a loop of coroutines: a few threads wait in its place, and nobody waits for ever."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import ParamSpec, TypeVar

from notifier.domain.errors import StoreUnavailable

THREADS = 4
"""Reads take well under a millisecond: more threads would only wait for the interpreter's lock."""

DEADLINE = timedelta(seconds=2)
"""Who looks at a notification tab has looked away by then."""

P = ParamSpec("P")
T = TypeVar("T")


class Reader:
    """Starts its threads with the first question, so that it may be made before a fork."""

    def __init__(self, *, threads: int = THREADS, deadline: timedelta = DEADLINE) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sqlite")
        self._deadline = deadline

    async def __call__(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer. Raises StoreUnavailable when it takes too long; then a write may still take effect.

        A question that was still waiting for a thread is never asked.
        """
        question = self._threads.submit(ask, *args, **kwargs)
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await asyncio.wrap_future(question)
        except TimeoutError as error:
            raise StoreUnavailable(f"No answer within {self._deadline.total_seconds():g} s.") from error

    def close(self) -> None:
        """Waits for the answers that are on their way."""
        self._threads.shutdown(cancel_futures=True)
