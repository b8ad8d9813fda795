"""Thread pool for blocking calls from an API process's event loop."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import ParamSpec, TypeVar

from notifier.concurrency_and_time_limits import BoundedExecutor, Bulkhead, Threads
from notifier.domain.bursts.burst import Burst
from notifier.flow.inbox.burst_walk import position_of
from notifier.ports.bursts import RecentBursts
from notifier.ports.event_log_and_dead_letters import EventLog, Record

MAX_THREADS = 64
"""Maximum number of threads. They mostly wait for the log or the store, and a waiting thread costs almost nothing."""
BURSTS_PER_READ = 500
"""Maximum bursts of one read, so that a read takes only a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


class RequestThreads:
    """Thread pool of one process. No thread starts before the first call."""

    __slots__ = ("_pool",)

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="api")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Drop the queued calls, and wait for the running ones."""
        self._pool.shutdown(cancel_futures=True)


MAX_CALLS_OF_A_KIND = 8
"""Maximum concurrent calls of one kind, such as device requests.

If the store blocks all of them, threads remain for the log.
"""
MAX_THREAD_WAIT = timedelta(seconds=2)
"""Maximum wait of a call while MAX_CALLS_OF_A_KIND calls of its kind are running."""


def limited_threads(threads: Threads, max_wait: timedelta = MAX_THREAD_WAIT) -> BoundedExecutor:
    """Return an executor for one kind of call, which may use only MAX_CALLS_OF_A_KIND of the threads."""
    return BoundedExecutor(threads=threads, bulkhead=Bulkhead(max_concurrent=MAX_CALLS_OF_A_KIND, max_wait=max_wait))


# Asynchronous wrappers of blocking ports. Each call runs in a thread.


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedLog:
    log: EventLog
    threads: Threads

    async def append(self, record: Record) -> None:
        """Return once the record is durable. Raises LogUnavailable and DiskFull."""
        await self.threads.run(self.log.append, [record])


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedBursts:
    bursts: RecentBursts
    threads: Threads

    async def opened_since(self, since: datetime) -> Sequence[Burst]:
        """Return the bursts, oldest first. Raises StoreUnavailable."""
        return await self.threads.run(self._opened_since, since)

    def _opened_since(self, since: datetime) -> Sequence[Burst]:
        bursts, cursor = list[Burst](), None
        while page := self.bursts.opened_since(since, cursor, BURSTS_PER_READ):
            bursts += page
            cursor = position_of(page[-1])
        return bursts[::-1]
