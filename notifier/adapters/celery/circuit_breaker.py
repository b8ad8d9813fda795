"""A breaker for a broker that hangs: who waited in vain lets the next ones fail at once, for a while."""

from collections.abc import Callable
from threading import Lock
from time import monotonic

from notifier.domain.errors import QueueUnavailable

REST = 1.0
"""Seconds after a wait in vain in which nobody asks: at most half of a thread's time goes into waiting, however many
slices, pools and calls there are; a broker that woke is found within it."""

VAIN = 0.25
"""Seconds from which on a failure was a wait. A broker that is gone says so within a millisecond, and is asked again at
once, because it is back sooner than a rest ends."""


class Breaker:
    """Thread-safe. One for all pools of a process that share a server."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._silent = False
        self._asks_again_at = 0.0
        self._lock = Lock()

    def admit(self) -> float:
        """The moment at which the call begins. Raises QueueUnavailable while the broker is left alone."""
        with self._lock:
            now = self._now()
            if self._silent:
                if now < self._asks_again_at:
                    raise QueueUnavailable("It didn't answer a moment ago, and isn't asked again yet.")
                self._asks_again_at = now + REST  # this call asks; until it knows, the others do without
            return now

    def failed(self, began: float) -> None:
        with self._lock:
            now = self._now()
            self._silent = now - began >= VAIN
            self._asks_again_at = now + REST

    def answered(self) -> None:
        with self._lock:
            self._silent = False
