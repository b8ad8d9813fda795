"""Backpressure: how much of P2's credit to take away, from what the monitor read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from notifier.domain.delivery.slice import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    store_latency: timedelta
    """Of one small write."""
    queued: int
    """Slices in the queues of the pools that come before P2."""
    behind: Mapping[Pool, timedelta]
    """The age of the oldest burst with slices left in the ledger, by pool; none where nothing is left."""


SLOW_STORE = timedelta(milliseconds=50)
"""Ten times what the store needs at rest: P2 begins to give way."""
STUCK_STORE = timedelta(milliseconds=500)
CROWDED, FULL = 64, 96
"""All credits of P0 and P1 together are 96 slices; a queue that holds two thirds of them isn't being emptied."""
LATE = {Pool.P0: timedelta(seconds=5), Pool.P1: timedelta(seconds=10)}
"""Somewhat more than the largest burst takes alone on a small machine; at three times as much P2 stops."""


def pressure(readings: Readings) -> float:
    """0 takes nothing, 1 stops P2; P0 and P1 are never slowed by it."""
    shares = [
        (readings.store_latency - SLOW_STORE) / (STUCK_STORE - SLOW_STORE),
        (readings.queued - CROWDED) / (FULL - CROWDED),
        *((readings.behind[pool] / late - 1) / 2 for pool, late in LATE.items() if pool in readings.behind),
    ]
    return max(0.0, min(1.0, max(shares)))
