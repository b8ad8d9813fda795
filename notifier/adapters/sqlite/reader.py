"""Asking SQLite from a loop of coroutines: a thread asks in its place, and nobody waits for ever."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import finalize

from notifier.adapters.sqlite.line import Line, Question
from notifier.domain.errors import StoreUnavailable
from notifier.mailbox import Mailbox

THREADS = 1
"""Threads that ask at once take Python's lock from each other with each row; four answer a third of what one can."""

HELPERS = 3
"""Threads that go on while all others are held up."""

HELD_UP_AFTER = timedelta(milliseconds=200)
"""Reads take well under a millisecond; the longest that need no disk take some ten. On a busy machine any thread may
stand still for 50 ms, and help that isn't needed makes all of them slower."""

TOGETHER = 4
"""Answers that wake the loop once. More would keep the first of them waiting, and save hardly anything."""

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

    def __init__(
        self,
        *,
        threads: int = THREADS,
        helpers: int = HELPERS,
        deadline: timedelta = DEADLINE,
        waiting: int = WAITING,
        held_up_after: timedelta = HELD_UP_AFTER,
        together: int = TOGETHER,
    ) -> None:
        self._line = Line(threads, helpers, held_up_after, together)
        finalize(self, self._line.close)
        self._deadline = deadline
        self._most = waiting
        self._waiting = 0
        self._mailbox: Mailbox | None = None

    async def __call__(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer. Raises StoreUnavailable when it takes too long; then a write may still take effect.

        A question that was still waiting for a thread is never asked, and one that finds too many others is refused at
        once.
        """
        if self._waiting >= self._most:
            raise StoreUnavailable(f"{self._waiting} others wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                question = Question(partial(ask, *args, **kwargs), self._mail())
                self._line.append(question)
                try:
                    answer: T = await question.answered
                    return answer
                finally:
                    del question  # an error keeps this frame, and the question keeps the error
        except TimeoutError as error:
            raise StoreUnavailable(f"No answer within {self._deadline.total_seconds():g} s.") from error
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Waits for the answers that are on their way."""
        self._line.close()
        self._line.join()

    def _mail(self) -> Mailbox:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = Mailbox(loop)
        return self._mailbox


class Writer(Reader):
    """Threads for writes alone: those that wait for a locked file hold up no read."""

    def __init__(self, *, threads: int = WRITERS, deadline: timedelta = DEADLINE, waiting: int = WAITING) -> None:
        # Each answer goes at once: the next write may wait for the file until after this one's deadline.
        super().__init__(threads=threads, helpers=0, deadline=deadline, waiting=waiting, together=1)
