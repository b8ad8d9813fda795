"""A breaker for the store: while it fails, users who were shown a page before get it again without waiting."""

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

TERMS = BreakerSettings(failures=5, rest=timedelta(seconds=1), successes=1)
"""One slow answer is no reason to show others a partial page."""


@dataclass(slots=True)
class StoreBreaker:
    """For one event loop. Users who have nothing to show instead do not ask it."""

    state: Breaker = CLOSED

    @property
    def closed(self) -> bool:
        return isinstance(self.state, Closed)

    def allows(self, now: datetime) -> bool:
        """Return whether this caller may wait for the store; while the breaker is open, one caller per rest may."""
        self.state, allowed = allow(self.state, TERMS, now)
        return allowed

    def failed(self, now: datetime) -> None:
        self.state = record(self.state, TERMS, Failed(reason="The store does not answer."), now)

    def worked(self, now: datetime) -> None:
        if self.state is not CLOSED:
            self.state = record(self.state, TERMS, Succeeded(), now)


# The deadline of a page: whoever opens an inbox gets an answer within it, a partial one if need be.

LATE = 0.05
"""Seconds. A timer that fires so late says that this process did not run, and nothing about the store."""


COLD = 5
"""Times as long a page may take that has nothing to fall back to: an error helps nobody who waits for a first page."""


AT_ONCE, MOST_WAITING = 50, 1_000
"""Cold pages that are read at once, and that wait for it: a thousand at once would all be late."""
WAIT = timedelta(seconds=4)
"""Before a cold page is read."""


def cold_pages() -> Bulkhead:
    return Bulkhead(at_once=AT_ONCE, wait=WAIT, most_waiting=MOST_WAITING)


class ReadDeadline(Protocol):
    def turn(self) -> AbstractAsyncContextManager[None]:
        """A block for a viewer who is new to this process. Waits until there is room, and raises Crowded."""
        ...

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        """A block that raises StoreUnavailable when it takes too long; `cold`: there is nothing to show instead."""
        ...


class Timer:
    """Calls back once when it is due. Where the event loop itself stood still, it waits once more: answers that came in
    time are there to be read."""

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
        if self._loop.time() - self._due > LATE:
            self._due = self._loop.time() + self._seconds
            self._handle = self._loop.call_at(self._due, self._expire)
        else:
            self._call()


@dataclass(slots=True)
class PageDeadline:
    """For one event loop."""

    within: timedelta
    cold: Bulkhead = field(default_factory=cold_pages)

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self.cold.slot()

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        return self._timed(self.within * COLD if cold else self.within)

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
    """For whoever can wait: commands, simulations."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limit(self, *, cold: bool) -> AbstractAsyncContextManager[None]:
        return nullcontext()
