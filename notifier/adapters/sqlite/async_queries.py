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

from notifier.concurrency_limits import InFlightLimit
from notifier.event_loop_mailbox import Mailbox, RunningLoopMailbox

# Threads that run queries from one queue. A helper starts when all other threads are stalled.

MAX_UNDELIVERED_AGE = timedelta(milliseconds=5)
"""A thread delivers results older than this before it starts another query, which may hang."""


class PendingQuery:
    """A query from its call until its result is delivered."""

    def __init__(self, query: Callable[[], Any], mailbox: Mailbox) -> None:
        self.future: asyncio.Future[Any] = mailbox.loop.create_future()
        """Belongs to the event loop. Other threads only check whether it is done."""
        self.mailbox = mailbox
        self._query = query
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        if self.future.done():  # the caller stopped waiting while the query was queued
            return
        try:
            self._result = self._query()
        except BaseException as error:  # any error is for the caller: this thread goes on with the next query
            self._error = error
        self.mailbox.put(self._deliver)

    def _deliver(self) -> None:
        # Drop the references to the future and the error: the error's traceback refers to frames, and these to this
        # object. That would be a cycle.
        future, error = self.future, self._error
        del self.future, self._error
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(self._result)


class QueryThreads:
    """Threads that run queries, started with the first query.

    The threads hold no reference to the reader. When the reader is garbage collected, they end.
    """

    def __init__(
        self, worker_count: int, max_helpers: int, helpers_start_after: timedelta, results_per_wakeup: int
    ) -> None:
        """Create without starting a thread.

        `results_per_wakeup` is the number of results that a thread delivers together, while queries are queued.
        """
        self._queue: SimpleQueue[PendingQuery | None] = SimpleQueue()
        """None marks the end of the queue."""
        self._worker_count = worker_count
        self._max_threads = worker_count + max_helpers
        self._stall_seconds = helpers_start_after.total_seconds()
        self._results_per_wakeup = results_per_wakeup
        self._lock = threading.Lock()
        self._numbers = count()
        self._threads: dict[int, threading.Thread] = {}
        self._stall_times: dict[int, float] = {}
        """Time from which a thread counts as stalled, by thread; infinite while it runs no query."""

    def append(self, pending: PendingQuery) -> None:
        with self._lock:
            self._queue.put(pending)
            while len(self._threads) < self._worker_count:
                self._start(self._run_worker)
            now = time.monotonic()
            if len(self._threads) < self._max_threads and all(
                stall_time < now for stall_time in self._stall_times.values()
            ):
                self._start(self._run_helper)

    def close(self) -> None:
        self._queue.put(None)

    def join(self) -> None:
        """Wait until all queries have run. Call it after `close`."""
        for thread in [*self._threads.values()]:
            thread.join()

    def _start(self, run: Callable[[int], None]) -> None:
        number = next(self._numbers)
        self._stall_times[number] = math.inf
        self._threads[number] = threading.Thread(target=run, args=(number,), name=f"sqlite-{number}", daemon=True)
        self._threads[number].start()

    def _run_worker(self, number: int) -> None:
        undelivered = _UndeliveredResults(self._results_per_wakeup)
        while (pending := self._next_or_wait(undelivered)) is not None:
            self._run_query(number, pending, undelivered)
        undelivered.send()
        self.close()  # pass the end of the queue on to the other threads

    def _next_or_wait(self, undelivered: "_UndeliveredResults") -> PendingQuery | None:
        try:
            return self._queue.get_nowait()
        except Empty:  # no query is queued: deliver all results before waiting
            undelivered.send()
            return self._queue.get()

    def _run_helper(self, number: int) -> None:
        undelivered = _UndeliveredResults(self._results_per_wakeup)
        while (pending := self._next_or_end(number)) is not None:
            self._run_query(number, pending, undelivered)
        undelivered.send()

    def _next_or_end(self, number: int) -> PendingQuery | None:
        """Return the next query for a helper, or None to end it.

        A helper is removed under the lock: `append` then sees that the helper can't run the new query.
        """
        with self._lock:
            with suppress(Empty):
                if (pending := self._queue.get_nowait()) is not None:
                    return pending
                self.close()  # pass the end of the queue on to the other threads
            del self._threads[number], self._stall_times[number]
            return None

    def _run_query(self, number: int, pending: PendingQuery, undelivered: "_UndeliveredResults") -> None:
        now = time.monotonic()
        if undelivered.oldest_at < now - MAX_UNDELIVERED_AGE.total_seconds():
            undelivered.send()
        self._stall_times[number] = now + self._stall_seconds
        pending.run()
        self._stall_times[number] = math.inf
        undelivered.add(pending)


class _UndeliveredResults:
    """Results of a thread for which the event loop isn't woken yet."""

    def __init__(self, results_per_wakeup: int) -> None:
        self._results_per_wakeup = results_per_wakeup
        self._mailboxes: list[Mailbox] = []
        self.oldest_at = math.inf
        """Time of the oldest undelivered result; infinite if there is none."""

    def add(self, pending: PendingQuery) -> None:
        if not self._mailboxes:
            self.oldest_at = time.monotonic()
        self._mailboxes.append(pending.mailbox)
        if len(self._mailboxes) == self._results_per_wakeup:
            self.send()

    def send(self) -> None:
        for mailbox in set(self._mailboxes):
            mailbox.wake()
        self._mailboxes.clear()
        self.oldest_at = math.inf


READER_THREAD_COUNT = 1
"""Number of reading threads. Threads contend for the GIL at each row: four run a third as many queries as one."""

MAX_HELPER_THREADS = 3
"""Maximum number of helpers, which run queries while all other threads are stalled."""

HELPERS_START_AFTER = timedelta(milliseconds=200)
"""Duration of a query after which its thread counts as stalled.

Most reads take well under a millisecond, the longest without disk access about 10 ms. On a busy machine any thread may
stall for 50 ms, and helpers that aren't needed slow down all threads.
"""

RESULTS_PER_WAKEUP = 4
"""Results per wake-up of the event loop. A higher number would delay the first result, and save hardly anything."""

WRITER_THREAD_COUNT = 2
"""Number of threads for writes. A file has one writer at a time: while it waits for the disk, the other thread
prepares its write."""

QUERY_DEADLINE = timedelta(seconds=2)
"""Longest time that a caller waits for the result of a query."""

MAX_IN_FLIGHT = 1_000
"""Maximum number of queries in flight. At a millisecond each, the last of them waits for half of the deadline."""

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """Runs reads. Its threads start with the first query, so it may be created before a fork."""

    def __init__(
        self,
        *,
        thread_count: int = READER_THREAD_COUNT,
        max_helpers: int = MAX_HELPER_THREADS,
        deadline: timedelta = QUERY_DEADLINE,
        max_in_flight: int = MAX_IN_FLIGHT,
        helpers_start_after: timedelta = HELPERS_START_AFTER,
        results_per_wakeup: int = RESULTS_PER_WAKEUP,
    ) -> None:
        self._threads = QueryThreads(thread_count, max_helpers, helpers_start_after, results_per_wakeup)
        finalize(self, self._threads.close)
        self._limit = InFlightLimit(max_calls=max_in_flight, deadline=deadline)
        self._loop_mailbox = RunningLoopMailbox()

    async def __call__(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result. Raises StoreUnavailable at the deadline; a query that writes may still take effect.

        A query that is still queued at the deadline never runs. If too many queries are in flight, the call fails at
        once.
        """
        return await self._limit.run(1, self._run_query, partial(query, *args, **kwargs))

    async def _run_query(self, query: Callable[[], T]) -> T:
        pending = PendingQuery(query, self._loop_mailbox.current())
        self._threads.append(pending)
        try:
            result: T = await pending.future
            return result
        finally:
            del pending  # breaks a cycle: the error refers to this frame, and the query refers to the error

    def close(self) -> None:
        """Wait for the queries in flight, and end the threads."""
        self._threads.close()
        self._threads.join()


class SqliteWriter(SqliteReader):
    """Runs writes in separate threads: a write that waits for a locked file delays no read."""

    def __init__(
        self,
        *,
        thread_count: int = WRITER_THREAD_COUNT,
        deadline: timedelta = QUERY_DEADLINE,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        # Deliver each result immediately: the next write may wait for the file until after the deadline of this one.
        super().__init__(
            thread_count=thread_count,
            max_helpers=0,
            deadline=deadline,
            max_in_flight=max_in_flight,
            results_per_wakeup=1,
        )
