"""Threads of an API process, in which its asynchronous code calls the blocking write path."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import ParamSpec, TypeVar

from notifier.bounded_executor import BoundedExecutor, Bulkhead, Threads
from notifier.domain.bursts.burst import Burst
from notifier.flow.inbox.burst_walk import place_of
from notifier.ports.bursts import RecentBursts
from notifier.ports.event_log import EventLog, Record

MOST_THREADS = 64
"""So many requests may wait for one sync of the log. A waiting thread costs next to nothing."""
BURSTS_PER_READ = 500
"""Some milliseconds of the store."""

P = ParamSpec("P")
T = TypeVar("T")


class RequestThreads:
    """A pool of threads. Starts none before the first call."""

    __slots__ = ("_pool",)

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="edge")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Drop the calls that have not begun, and wait for the others."""
        self._pool.shutdown(cancel_futures=True)


CALLS_AT_ONCE = 8
"""Of one kind; the other threads are for the log, which must not wait for a slow store."""
WAIT = timedelta(seconds=2)
"""For one of these threads."""


def share_of(threads: Threads, wait: timedelta = WAIT) -> BoundedExecutor:
    """Return the share of the threads that one kind of call may use."""
    return BoundedExecutor(threads=threads, bulkhead=Bulkhead(at_once=CALLS_AT_ONCE, wait=wait))


# Blocking ports, as the read path's stages use them.


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
        found, behind = list[Burst](), None
        while page := self.bursts.since(moment, behind, BURSTS_PER_READ):
            found += page
            behind = place_of(page[-1])
        return found[::-1]
