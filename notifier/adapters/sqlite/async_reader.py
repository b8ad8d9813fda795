"""Runs SQLite queries for coroutines in threads, with a deadline."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import finalize

from notifier.bounded_executor import InFlightLimit
from notifier.mailbox import Mailbox, Mailboxes

# Queue of queries for the threads: one thread runs them, and helpers join while it is held up.

LONGEST_KEPT = timedelta(milliseconds=5)
"""Maximum delay of an answer. Older answers are delivered before the next query, which may hang."""


class PendingQuery:
    def __init__(self, query: Callable[[], Any], mailbox: Mailbox) -> None:
        self.answered: asyncio.Future[Any] = mailbox.loop.create_future()
        """Belongs to the event loop. Other threads only check whether it is done."""
        self.mailbox = mailbox
        self._query = query
        self._answer: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        if self.answered.done():  # its deadline has passed in the queue
            return
        try:
            self._answer = self._query()
        except BaseException as error:  # any error belongs to the caller: the thread goes on with the next query
            self._error = error
        self.mailbox.put(self._hand_over)

    def _hand_over(self) -> None:
        # A traceback holds frames that refer to this question, which must then hold neither the error nor its answer.
        answered, error = self.answered, self._error
        del self.answered, self._error
        if answered.done():
            return
        if error is not None:
            answered.set_exception(error)
        else:
            answered.set_result(self._answer)


class QueryThreads:
    """Threads that run queries, started with the first one.

    They don't refer to the reader, so that they end with it.
    """

    def __init__(self, threads: int, helpers: int, helped_after: timedelta, answers_per_wakeup: int) -> None:
        """`together`: answers of a thread per wake-up of the event loop, while queries are queued."""
        self._questions: SimpleQueue[PendingQuery | None] = SimpleQueue()
        """None marks the end of the queue."""
        self._lasting = threads
        self._most = threads + helpers
        self._held_up_after = helped_after.total_seconds()
        self._together = answers_per_wakeup
        self._lock = threading.Lock()
        self._numbers = count()
        self._threads: dict[int, threading.Thread] = {}
        self._free_by: dict[int, float] = {}
        """Time by thread. A thread that still runs the same query at that time is held up."""

    def append(self, pending: PendingQuery) -> None:
        with self._lock:
            self._questions.put(pending)
            while len(self._threads) < self._lasting:
                self._start(self._run_worker)
            now = time.monotonic()
            if len(self._threads) < self._most and all(limit < now for limit in self._free_by.values()):
                self._start(self._run_helper)

    def close(self) -> None:
        self._questions.put(None)

    def join(self) -> None:
        """Wait until all queries have run. Call it after `close`."""
        for thread in [*self._threads.values()]:
            thread.join()

    def _start(self, run: Callable[[int], None]) -> None:
        number = next(self._numbers)
        self._free_by[number] = math.inf
        self._threads[number] = threading.Thread(target=run, args=(number,), name=f"sqlite-{number}", daemon=True)
        self._threads[number].start()

    def _run_worker(self, number: int) -> None:
        answers = _Answers(self._together)
        while (pending := self._wait(answers)) is not None:
            self._run_query(number, pending, answers)
        answers.send()
        self.close()  # pass the end of the queue on to the other threads

    def _wait(self, answers: "_Answers") -> PendingQuery | None:
        try:
            return self._questions.get_nowait()
        except Empty:  # or another thread was faster: deliver all answers before waiting
            answers.send()
            return self._questions.get()

    def _run_helper(self, number: int) -> None:
        answers = _Answers(self._together)
        while (pending := self._next(number)) is not None:
            self._run_query(number, pending, answers)
        answers.send()

    def _next(self, number: int) -> PendingQuery | None:
        """Return the next query of a helper. A helper leaves under the lock, so that it misses no new query."""
        with self._lock:
            with suppress(Empty):
                if (pending := self._questions.get_nowait()) is not None:
                    return pending
                self.close()  # pass the end of the queue on to the other threads
            del self._threads[number], self._free_by[number]
            return None

    def _run_query(self, number: int, pending: PendingQuery, answers: "_Answers") -> None:
        now = time.monotonic()
        if answers.kept_since < now - LONGEST_KEPT.total_seconds():
            answers.send()
        self._free_by[number] = now + self._held_up_after
        pending.run()
        self._free_by[number] = math.inf
        answers.add(pending)


class _Answers:
    """Answers of a thread for which the event loop isn't woken yet."""

    def __init__(self, per_wakeup: int) -> None:
        self._together = per_wakeup
        self._mailboxes: list[Mailbox] = []
        self.kept_since = math.inf
        """When the oldest answer was added."""

    def add(self, answered: PendingQuery) -> None:
        if not self._mailboxes:
            self.kept_since = time.monotonic()
        self._mailboxes.append(answered.mailbox)
        if len(self._mailboxes) == self._together:
            self.send()

    def send(self) -> None:
        for mailbox in set(self._mailboxes):
            mailbox.wake()
        self._mailboxes.clear()
        self.kept_since = math.inf


THREADS = 1
"""Concurrent threads contend for the GIL with each row: four answer a third of what one can."""

HELPERS = 3
"""Threads that take over while all others are held up."""

HELPED_AFTER = timedelta(milliseconds=200)
"""Reads take well under a millisecond; the longest without disk access take about ten. On a busy machine any thread
may stall for 50 ms, and helpers that aren't needed slow down all threads."""

ANSWERS_PER_WAKEUP = 4
"""Answers per wake-up of the event loop. More would delay the first of them, and save hardly anything."""

WRITERS = 2
"""A file has one writer at a time. While one waits for the disk, the next is ready."""

DEADLINE = timedelta(seconds=2)
"""A user who opened the inbox has looked away by then."""

MAX_WAITING = 1_000
"""Maximum queries in flight. At a millisecond each, a query behind so many would miss the deadline anyway."""

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """Runs reads. It starts its threads with the first query, so that it may be created before a fork."""

    def __init__(
        self,
        *,
        threads: int = THREADS,
        helpers: int = HELPERS,
        deadline: timedelta = DEADLINE,
        max_waiting: int = MAX_WAITING,
        helped_after: timedelta = HELPED_AFTER,
        answers_per_wakeup: int = ANSWERS_PER_WAKEUP,
    ) -> None:
        self._line = QueryThreads(threads, helpers, helped_after, answers_per_wakeup)
        finalize(self, self._line.close)
        self._limit = InFlightLimit(max_calls=max_waiting, deadline=deadline)
        self._mailboxes = Mailboxes()

    async def __call__(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the answer. Raises StoreUnavailable at the deadline; a write may still take effect.

        A query that is still queued at the deadline never runs. If too many queries are in flight, it is rejected at
        once.
        """
        return await self._limit.run(1, self._answer, partial(query, *args, **kwargs))

    async def _answer(self, query: Callable[[], T]) -> T:
        pending = PendingQuery(query, self._mailboxes.current())
        self._line.append(pending)
        try:
            answer: T = await pending.answered
            return answer
        finally:
            del pending  # breaks a cycle: the error holds this frame, and the question holds the error

    def close(self) -> None:
        """Wait for the queries in flight, and end the threads."""
        self._line.close()
        self._line.join()


class SqliteWriter(SqliteReader):
    """Runs writes in separate threads: a write that waits for a locked file delays no read."""

    def __init__(
        self, *, threads: int = WRITERS, deadline: timedelta = DEADLINE, max_waiting: int = MAX_WAITING
    ) -> None:
        # Deliver each answer at once: the next write may wait for the file beyond this one's deadline.
        super().__init__(threads=threads, helpers=0, deadline=deadline, max_waiting=max_waiting, answers_per_wakeup=1)
