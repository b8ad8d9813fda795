"""Backpressure: how much of P2's credit to take away, from what the monitor read."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    store_latency: timedelta
    """Of one small write."""
    waiting: int
    """Slices queued in the pools that come before P2."""


SLOW_STORE = timedelta(milliseconds=50)
"""Ten times what the store needs at rest: P2 begins to give way."""
STUCK_STORE = timedelta(milliseconds=500)
CROWDED = 100
"""Slices before P2: about as many as the credits of P0 and P1 allow together."""


def pressure(readings: Readings) -> float:
    """0 takes nothing, 1 stops P2; P0 and P1 are never slowed by it."""
    span = (readings.store_latency - SLOW_STORE) / (STUCK_STORE - SLOW_STORE)
    crowd = readings.waiting / CROWDED - 1.0
    return max(0.0, min(1.0, max(span, crowd)))
