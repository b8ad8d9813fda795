"""Bounds on concurrent calls in an event loop: slots, threads, calls in flight, and time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ParamSpec, Protocol, TypeVar

from notifier.domain.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


class TooManyWaiting(StoreUnavailable):
    """This process is overloaded: no slot was free in time, or too many calls wait. The call was not made."""


@dataclass(slots=True, kw_only=True)
class Bulkhead:
    """A limited number of slots for concurrent calls. A caller waits for a free slot. One instance per event loop."""

    max_concurrent: int
    max_wait: timedelta
    """Longest wait for a slot."""
    max_waiting: int | None = None
    """Maximum number of callers that may wait together; further ones are refused immediately. None means no limit."""
    waiting_count: int = 0
    _slots: asyncio.Semaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.max_concurrent)

    @property
    def is_full(self) -> bool:
        return self._slots.locked()

    async def acquire(self) -> None:
        """Take a slot. Raises TooManyWaiting."""
        if self.max_waiting is not None and self.waiting_count >= self.max_waiting:
            raise TooManyWaiting(f"Too many waiting calls: {self.waiting_count}.")
        self.waiting_count += 1
        try:
            async with asyncio.timeout(self.max_wait.total_seconds()):
                await self._slots.acquire()
        except TimeoutError as error:
            raise TooManyWaiting(
                f"All {self.max_concurrent} slots were busy for {self.max_wait.total_seconds():g} s."
            ) from error
        finally:
            self.waiting_count -= 1

    def release(self) -> None:
        self._slots.release()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot. Raises TooManyWaiting."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()


class Threads(Protocol):
    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the call in a thread and return its result, or raise its exception.

        The call runs to completion even if its caller is canceled.
        """
        ...


@dataclass(slots=True, kw_only=True)
class BoundedExecutor:
    """Runs blocking calls in a shared thread pool, a limited number at a time: a slow store must not take all threads.

    One instance per event loop.
    """

    threads: Threads
    bulkhead: Bulkhead

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the call. Raises TooManyWaiting, and any exception of the call.

        If the caller is canceled while the call runs, the call still runs to completion, and holds its slot until then.
        """
        await self.bulkhead.acquire()
        running = asyncio.create_task(self.threads.run(call, *args, **kwargs))
        running.add_done_callback(lambda _: self.bulkhead.release())
        return await asyncio.shield(running)


@dataclass(slots=True, kw_only=True)
class InFlightLimit:
    """Limits the calls of an asynchronous driver: how many are in flight, and how long each may take."""

    max_calls: int
    """Calls in flight at which `run` refuses further calls. A `run` of several calls may still exceed this number."""
    deadline: timedelta
    in_flight: int = 0

    async def run(self, call_count: int, call: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `call` and return its result. `call_count` is how many store calls it has in flight at once.

        Raises StoreUnavailable at once if too many calls are in flight, and otherwise when the deadline has passed. A
        write may still take effect after its deadline. This is no context manager, because that would cost 17 µs
        more per call.
        """
        if self.in_flight >= self.max_calls:
            raise StoreUnavailable(f"Too many running calls: {self.in_flight}.")
        self.in_flight += call_count
        try:
            async with asyncio.timeout(self.deadline.total_seconds()):
                return await call(*args, **kwargs)
        except TimeoutError as error:
            raise self.deadline_error() from error
        finally:
            self.in_flight -= call_count

    def deadline_error(self) -> StoreUnavailable:
        return StoreUnavailable(f"No answer within {self.deadline.total_seconds():g} s.")


# Time limits that do not expire merely because the event loop was blocked.

LATE_TIMER_SECONDS = 0.05
"""A timer that is later than this shows that the event loop was blocked, not that an answer is late."""
GRACE_SECONDS = 0.05
"""Extra time that a late timer gives the event loop, once per interval, to read answers that have arrived."""


class RepeatingTimer:
    """Calls `callback` after each `interval`, until it is canceled. If it is late, it waits GRACE_SECONDS more."""

    def __init__(self, interval: timedelta, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = interval.total_seconds()
        self._callback = callback
        self._grace_used = False
        self._schedule(self._seconds)

    def cancel(self) -> None:
        self._handle.cancel()

    def _schedule(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._handle = self._loop.call_at(self._due, self._expire)

    def _expire(self) -> None:
        if not self._grace_used and self._loop.time() - self._due > LATE_TIMER_SECONDS:
            self._grace_used = True
            return self._schedule(GRACE_SECONDS)
        self._grace_used = False
        self._schedule(self._seconds)
        return self._callback()


@asynccontextmanager
async def limited(time_limit: timedelta) -> AsyncIterator[None]:
    """Raise TimeoutError if the `async with` block takes longer than `time_limit`, measured by a RepeatingTimer."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as scope:

        def expire() -> None:
            if not scope.expired():
                scope.reschedule(loop.time())

        timer = RepeatingTimer(time_limit, expire)
        try:
            yield
        finally:
            timer.cancel()
