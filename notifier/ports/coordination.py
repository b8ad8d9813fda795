"""Epochs: numbers that only rise, one for each time that somebody begins to be the one who writes something."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.delivery.slice import Pool, Slice
from notifier.domain.delivery.throttle import Throttle


class Epochs(Protocol):
    def begin(self, name: str) -> int:
        """A higher one than anybody was given for this name. Durable.

        Raises StoreUnavailable; then one may be left out.
        """
        ...


# Leadership: one dispatcher, one reconciler and one monitor at a time, without anybody to appoint them.


class Leases(Protocol):
    """Durable. Raises StoreUnavailable or Full."""

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        """True while the lease is the owner's, taken or renewed for another term."""
        ...


# The task queues: they only wake workers; what is lost or doubled in them, the ledger makes good.


class Queue(Protocol):
    """May lose, double and reorder. Raises QueueUnavailable."""

    def enqueue(self, slices: Sequence[Slice]) -> None:
        """Each to its pool, where those that pass (`Slice.passes`) come out before all others, by whomever and whenever
        they were queued; at most one other per worker is out already."""
        ...

    def depth(self, pool: Pool) -> int:
        """Waiting, without those a worker holds."""
        ...


# The throttles that operators set, durable and audited.


class Throttles(Protocol):
    """Durable. Raises StoreUnavailable, and Full where it writes."""

    def put(self, throttle: Throttle) -> None:
        """Sets it, and writes who did to the audit in the same step."""
        ...

    def lift(self, id: str, who: str, now: datetime) -> Throttle | None:
        """Ends it now; None when there is no such throttle or it has ended."""
        ...

    def since(self, moment: datetime) -> Sequence[Throttle]:
        """Those that are in force or ended after the moment, oldest first."""
        ...


# Time and chance as dependencies, so that a simulator can own them.


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC, in whole milliseconds."""
        ...


class Nonces(Protocol):
    def new(self) -> str:
        """A name that nobody else will ever make."""
        ...
