"""Ports of epochs, leases, task queues, throttles, the clock and nonces."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.delivery.slice_and_pool import Pool, Slice
from notifier.domain.delivery.throttle_and_backpressure import Throttle


class Epochs(Protocol):
    """Increasing numbers by name. A writer takes one per batch or round, and makes its fencing token from it."""

    def begin(self, name: str) -> int:
        """Return a number higher than any that was returned for this name. Durable. Blocking.

        Raises StoreUnavailable or DiskFull; then a number may be skipped.
        """
        ...


# Leadership: a lease chooses the process that runs a stage such as the dispatcher.


class Leases(Protocol):
    """Leases by name. Durable. Blocking. Raises StoreUnavailable or DiskFull.

    The clock of the caller decides whether a lease has expired.
    """

    def acquire(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        """Take or renew the lease for another term; return whether `owner` is the owner now."""
        ...


# Task queues only wake workers. The dispatcher queues a lost task again. A duplicate finds its slice claimed or ended.


class Queue(Protocol):
    """Task queues, one for each pool. May lose, duplicate and reorder tasks. Blocking. Raises QueueUnavailable."""

    def enqueue(self, slices: Sequence[Slice]) -> None:
        """Queue each slice in its pool.

        Priority slices (`Slice.has_priority`) are delivered before all others of their pool. It does not matter which
        process queued them, or when. They wait at most for the one slice that each worker has received already.
        """
        ...

    def depth(self, pool: Pool) -> int:
        """Return the number of slices in the queue, without those that workers have received."""
        ...


class Throttles(Protocol):
    """Throttles, with an audit log. Durable. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def put(self, throttle: Throttle) -> None:
        """Store the throttle. The audit log gets it first, or in the same step."""
        ...

    def lift(self, id: str, operator: str, now: datetime) -> Throttle | None:
        """End the throttle now and return it; return None if it does not exist or has already ended."""
        ...

    def ending_after(self, moment: datetime) -> Sequence[Throttle]:
        """Return the throttles whose end is after `moment`, ordered by start."""
        ...


# Time and randomness are dependencies, so that the simulator can control them.


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time as an aware UTC datetime in whole milliseconds."""
        ...


class Nonces(Protocol):
    def new(self) -> str:
        """Return a globally unique name."""
        ...
