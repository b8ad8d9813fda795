"""Circuit breaker and read deadline for the inbox's use of the store.

While the store fails, users who were shown a page before get it again without waiting.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from notifier.bounded_executor import Bulkhead
from notifier.domain.errors import StoreUnavailable
from notifier.domain.push.circuit_breaker import (
    CLOSED,
    Breaker,
    BreakerSettings,
    Closed,
    Failed,
    Succeeded,
    allow,
    record,
)

BREAKER_SETTINGS = BreakerSettings(failures=5, open_for=timedelta(seconds=1), successes=1)
"""One slow answer is no reason to show a partial page to other users."""


@dataclass(slots=True)
class StoreBreaker:
    """One instance per event loop. Requests without a fallback page bypass the breaker."""

    state: Breaker = CLOSED

    @property
    def is_closed(self) -> bool:
        return isinstance(self.state, Closed)

    def allows(self, now: datetime) -> bool:
        """Return whether this caller may wait for the store. While the breaker is open, one caller per rest may."""
        self.state, allowed = allow(self.state, BREAKER_SETTINGS, now)
        return allowed

    def record_failure(self, now: datetime) -> None:
        self.state = record(self.state, BREAKER_SETTINGS, Failed(reason="The store does not answer."), now)

    def record_success(self, now: datetime) -> None:
        if self.state is not CLOSED:
            self.state = record(self.state, BREAKER_SETTINGS, Succeeded(), now)


# Read deadline: every opened inbox gets an answer within it, a partial one if necessary.

LATE_TIMER_SECONDS = 0.05
"""Seconds. A timer that fires this late shows that this process did not run, and nothing about the store."""


COLD_FACTOR = 5
"""Deadline multiplier for pages without a fallback: an error helps no user who waits for a first page."""


MAX_COLD_READS, MAX_WAITING_READS = 50, 1_000
"""Cold pages that are read concurrently, and that wait for a slot. A thousand concurrent reads would all be late."""
MAX_SLOT_WAIT = timedelta(seconds=4)
"""Maximum wait for a slot before a cold page is read."""


def cold_pages() -> Bulkhead:
    return Bulkhead(max_concurrent=MAX_COLD_READS, wait=MAX_SLOT_WAIT, max_waiting=MAX_WAITING_READS)


class ReadDeadline(Protocol):
    def slot(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager for a viewer who is new to this process. It waits for a slot, and raises Crowded."""
        ...

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        """Return a context manager that raises StoreUnavailable when it takes too long.

        `cold`: there is no page to show instead.
        """
        ...


class Timer:
    """Calls back once when it is due.

    If the event loop itself stood still, the timer starts over: answers that came in time are there to be read.
    """

    def __init__(self, within: timedelta, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = within.total_seconds()
        self._call = call
        self._due = self._loop.time() + self._seconds
        self._handle = self._loop.call_at(self._due, self._expire)

    @classmethod
    def start(cls, within: timedelta, call: Callable[[], None]) -> "Timer":
        return cls(within, call)

    def cancel(self) -> None:
        self._handle.cancel()

    def _expire(self) -> None:
        if self._loop.time() - self._due > LATE_TIMER_SECONDS:
            self._due = self._loop.time() + self._seconds
            self._handle = self._loop.call_at(self._due, self._expire)
        else:
            self._call()


@dataclass(slots=True)
class PageDeadline:
    """One instance per event loop."""

    within: timedelta
    cold: Bulkhead = field(default_factory=cold_pages)

    def slot(self) -> AbstractAsyncContextManager[None]:
        return self.cold.slot()

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        return self._timed(self.within * COLD_FACTOR if cold else self.within)

    @asynccontextmanager
    async def _timed(self, within: timedelta) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as scope:
                timer = Timer.start(within, lambda: scope.reschedule(loop.time()))
                try:
                    yield
                finally:
                    timer.cancel()
        except TimeoutError as error:
            raise StoreUnavailable(f"No page within {within.total_seconds():g} s.") from error


@dataclass(frozen=True, slots=True)
class NoDeadline:
    """For callers that can wait: commands and simulations."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        return nullcontext()
