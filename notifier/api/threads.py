"""Thread pool through which an API process calls blocking code from its event loop."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import ParamSpec, TypeVar

from notifier.bounded_executor import BoundedExecutor, Bulkhead, Threads
from notifier.domain.bursts.burst import Burst
from notifier.flow.inbox.burst_walk import position_of
from notifier.ports.bursts import RecentBursts
from notifier.ports.event_log import EventLog, Record

MOST_THREADS = 64
"""Requests that may wait for one sync of the log. A waiting thread costs almost nothing."""
BURSTS_PER_READ = 500
"""Bursts per page read, which takes the store a few milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


class RequestThreads:
    """A thread pool. No thread starts before the first call."""

    __slots__ = ("_pool",)

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="edge")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Drop the queued calls, and wait for the running ones."""
        self._pool.shutdown(cancel_futures=True)


CALLS_AT_ONCE = 8
"""Concurrent calls of one kind. The other threads serve the log, which must not wait for a slow store."""
WAIT = timedelta(seconds=2)
"""Longest wait for one of these threads."""


def share_of(threads: Threads, wait: timedelta = WAIT) -> BoundedExecutor:
    """Return an executor that limits one kind of call to its share of the threads."""
    return BoundedExecutor(threads=threads, bulkhead=Bulkhead(max_concurrent=CALLS_AT_ONCE, wait=wait))


# Asynchronous wrappers of blocking ports, for the stages of the read path.


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedLog:
    log: EventLog
    threads: Threads

    async def append(self, record: Record) -> None:
        """Return once the record is durable. Raises LogUnavailable and Full."""
        await self.threads.run(self.log.append, [record])


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedBursts:
    bursts: RecentBursts
    threads: Threads

    async def opened_since(self, moment: datetime) -> Sequence[Burst]:
        """Return the bursts opened since `moment`, oldest first. Raises StoreUnavailable."""
        return await self.threads.run(self._opened_since, moment)

    def _opened_since(self, moment: datetime) -> Sequence[Burst]:
        bursts, cursor = list[Burst](), None
        while page := self.bursts.opened_since(moment, cursor, BURSTS_PER_READ):
            bursts += page
            cursor = position_of(page[-1])
        return bursts[::-1]
