"""Circuit breaker and read deadline for the inbox's use of the store."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from weakref import ref

from notifier.concurrency_and_time_limits import Bulkhead, limited
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

BREAKER_SETTINGS = BreakerSettings(failures_to_open=5, open_for=timedelta(seconds=1), successes_to_close=1)
"""Five failures in a row open the breaker: a single failure must not cause partial pages for other users."""


@dataclass(slots=True)
class StoreBreaker:
    """Breaker of one event loop. Requests without a fallback page read the store even while the breaker is open."""

    state: Breaker = CLOSED
    _last_failure: "ref[StoreUnavailable] | None" = None

    @property
    def is_closed(self) -> bool:
        return isinstance(self.state, Closed)

    def allows(self, now: datetime) -> bool:
        """Return whether this caller may read the store. An open breaker lets at most one caller try per second."""
        self.state, allowed = allow(self.state, BREAKER_SETTINGS, now)
        return allowed

    def record_failure(self, error: StoreUnavailable, now: datetime) -> None:
        """Count a failure. An error that several requests get from a shared load counts once."""
        if self._last_failure is not None and self._last_failure() is error:
            return
        self._last_failure = ref(error)
        self.state = record(self.state, BREAKER_SETTINGS, Failed(reason="The store does not answer."), now)

    def record_success(self, now: datetime) -> None:
        if self.state is not CLOSED:
            self.state = record(self.state, BREAKER_SETTINGS, Succeeded(), now)


# Read deadline: time limit for the reads of a page. A cold page is one without a fallback page.

ZERO = timedelta(0)
MIN_SHARE = 1 / 4
"""Least share of the deadline that a step gets, even if less is left: a blocked event loop may have spent the rest."""
COLD_FACTOR = 5
"""Ratio of a cold page's deadline to that of other pages. With nothing else to show, waiting beats an error."""

MAX_COLD_READS, MAX_WAITING_READS = 50, 1_000
"""Number of slots, and maximum number of pages that wait for one. If a thousand cold pages were read at once, all would
be late."""
MAX_SLOT_WAIT = timedelta(seconds=4)


def new_cold_bulkhead() -> Bulkhead:
    return Bulkhead(max_concurrent=MAX_COLD_READS, max_wait=MAX_SLOT_WAIT, max_waiting=MAX_WAITING_READS)


class ReadDeadline(Protocol):
    def slot(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager that waits for a slot to read a cold page. Raises TooManyWaiting."""
        ...

    def limit(self, *, cold: bool, spent: timedelta = ZERO) -> AbstractAsyncContextManager[None]:
        """Return a context manager that raises StoreUnavailable if its body takes longer than the deadline.

        `spent` is the part of the deadline that earlier steps of the page have used.
        """
        ...


@dataclass(slots=True)
class PageDeadline:
    """Read deadline of the API's pages, and slots for cold pages. One instance per event loop."""

    deadline: timedelta
    cold_reads: Bulkhead = field(default_factory=new_cold_bulkhead)

    def slot(self) -> AbstractAsyncContextManager[None]:
        return self.cold_reads.slot()

    def limit(self, *, cold: bool, spent: timedelta = ZERO) -> AbstractAsyncContextManager[None]:
        return self._timed(self.deadline * COLD_FACTOR if cold else self.deadline, spent)

    @asynccontextmanager
    async def _timed(self, time_limit: timedelta, spent: timedelta) -> AsyncIterator[None]:
        # A clock that was set back makes the spent time negative.
        left = min(max(time_limit - spent, time_limit * MIN_SHARE), time_limit)
        try:
            async with limited(left):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"No page within {time_limit.total_seconds():g} s.") from error


@dataclass(frozen=True, slots=True)
class NoDeadline:
    """For simulations, whose pages may take any time."""

    def slot(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limit(self, *, cold: bool, spent: timedelta = ZERO) -> AbstractAsyncContextManager[None]:
        return nullcontext()
