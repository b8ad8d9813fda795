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

from notifier.concurrency_and_time_limits import InFlightLimit
from notifier.event_loop_mailbox import Mailbox, RunningLoopMailbox

MAX_UNDELIVERED_AGE = timedelta(milliseconds=5)
"""A thread delivers results older than this before it starts another query, which may hang."""


class PendingQuery:
    """A query whose result is not delivered yet."""

    def __init__(self, query: Callable[[], Any], mailbox: Mailbox) -> None:
        self.future: asyncio.Future[Any] = mailbox.loop.create_future()
        """Belongs to the event loop. Other threads only check whether it is done."""
        self.mailbox = mailbox
        self._query = query
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        # The thread keeps this object until its next query. Drop the query: it refers to the SqliteReader, which could
        # not be garbage-collected otherwise.
        query = self._query
        del self._query
        if self.future.done():  # the caller stopped waiting while the query was queued
            return
        try:
            self._result = query()
        except BaseException as error:  # any error is for the caller: this thread goes on with the next query
            self._error = error
        self.mailbox.put(self._deliver)

    def _deliver(self) -> None:
        # Break a reference cycle: the error's traceback refers to frames, and those refer to this object.
        future, result, error = self.future, self._result, self._error
        del self.future, self._result, self._error
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


class QueryThreads:
    """Threads that run queries.

    The worker threads start with the first query. A helper thread starts when a query arrives while all threads are
    stalled, and ends when no query is queued.

    This class must not refer to the SqliteReader: garbage collection of the reader ends the threads.
    """

    def __init__(
        self, worker_count: int, max_helpers: int, helpers_start_after: timedelta, results_per_wakeup: int
    ) -> None:
        self._queue: SimpleQueue[PendingQuery | None] = SimpleQueue()
        """None ends the threads."""
        self._worker_count = worker_count
        self._max_threads = worker_count + max_helpers
        self._stall_seconds = helpers_start_after.total_seconds()
        self._results_per_wakeup = results_per_wakeup
        self._lock = threading.Lock()
        self._thread_numbers = count()
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
        """Wait until all threads have ended. Call `close` first."""
        for thread in [*self._threads.values()]:
            thread.join()

    def _start(self, run: Callable[[int], None]) -> None:
        number = next(self._thread_numbers)
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

        The helper is removed under the lock, so that `append` doesn't rely on a helper that ends.
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
    """Results of one thread, before the event loop is woken for them."""

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
"""Threads contend for the GIL at each row: four run a third as many queries as one."""

MAX_HELPER_THREADS = 3

HELPERS_START_AFTER = timedelta(milliseconds=200)
"""Duration of a query after which its thread counts as stalled.

Most reads take well under a millisecond, the longest without disk access about 10 ms. On a busy machine any thread may
stall for 50 ms, and helpers that aren't needed slow down all threads.
"""

RESULTS_PER_WAKEUP = 4
"""Maximum number of results that a thread delivers together while queries are queued.

A higher number would delay the first result, and save hardly anything.
"""

WRITER_THREAD_COUNT = 2
"""A file has one writer at a time. While one thread waits for the disk, the other prepares its write."""

QUERY_DEADLINE = timedelta(seconds=2)

MAX_IN_FLIGHT = 1_000
"""At a millisecond per query, the last one waits for half of the deadline."""

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """Runs reads. The threads start with the first query, so a reader may be created before a fork."""

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
        """Return the result. Raises StoreUnavailable at the deadline, or immediately if too many queries are in flight.

        At the deadline a running query goes on, and may still write. A queued one will not run.
        """
        return await self._limit.run(1, self._run_query, partial(query, *args, **kwargs))

    async def _run_query(self, query: Callable[[], T]) -> T:
        pending = PendingQuery(query, self._loop_mailbox.current())
        self._threads.append(pending)
        try:
            result: T = await pending.future
            return result
        finally:
            del pending  # break a cycle: the error refers to this frame, and `pending` may refer to the error

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
        # Deliver each result immediately: the next write may wait for the file beyond the deadline of this one.
        super().__init__(
            thread_count=thread_count,
            max_helpers=0,
            deadline=deadline,
            max_in_flight=max_in_flight,
            results_per_wakeup=1,
        )
