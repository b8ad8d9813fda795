"""Throttles: temporary limits that operators set on tiers, and backpressure on P2."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import BadThrottle

RAMP = timedelta(seconds=30)
"""Time in which a tier returns to full speed after a throttle, so that parked work causes no second overload."""
RAMP_CEILING = 2_000_000.0
"""Deliveries per second at the end of a ramp: about what one machine writes if a burst reaches 2 % of the members."""
MAX_THROTTLE_DURATION = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """An operator's limit on one tier."""

    id: str
    tier: Tier
    rate: float | None
    """Deliveries per second; None is a pause."""
    reason: str
    operator: str
    starts_at: datetime
    ends_at: datetime

    def is_active(self, now: datetime) -> bool:
        return self.starts_at <= now < self.ends_at

    def is_ramping(self, now: datetime) -> bool:
        """Return whether the ramp after the throttle is running. A throttle lifted before its start has no ramp."""
        return self.starts_at < self.ends_at <= now < self.ends_at + RAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLimit:
    """Current limit of a tier in deliveries per second, and the throttle that sets it."""

    rate: float | None
    """None is no limit; 0 allows no deliveries."""
    throttle_id: str | None = None


UNLIMITED = TierLimit(rate=None)


def tier_limit(throttles: Iterable[Throttle], tier: Tier, now: datetime) -> TierLimit:
    """Return the lowest limit of the tier's active and ramping throttles."""
    rates = [(rate, t.id) for t in throttles if t.tier is tier and (rate := _rate(t, now)) is not None]
    if not rates:
        return UNLIMITED
    rate, throttle_id = min(rates)
    return TierLimit(rate=rate, throttle_id=throttle_id)


def _rate(throttle: Throttle, now: datetime) -> float | None:
    base = throttle.rate or 0.0
    if throttle.is_active(now):
        return base
    if throttle.is_ramping(now):
        return base + max(0.0, RAMP_CEILING - base) * ((now - throttle.ends_at) / RAMP) ** 2
    return None


def validated_throttle(throttle: Throttle) -> Throttle:
    """Return the throttle. Raises BadThrottle with what is wrong."""
    if not throttle.reason.strip():
        raise BadThrottle("The reason is empty.")
    if throttle.tier not in TIERS:
        raise BadThrottle(f"Tier {throttle.tier} has no deliveries to throttle.")
    if throttle.rate is not None and not 0 < throttle.rate < inf:
        raise BadThrottle("A rate must be above 0; use a pause to stop a tier.")
    if not throttle.starts_at < throttle.ends_at <= throttle.starts_at + MAX_THROTTLE_DURATION:
        raise BadThrottle("A throttle must end after its start, and within 7 days.")
    return throttle


# Backpressure: how much of P2's credit to withhold, from the readings of the monitor.


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Load as measured by the monitor."""

    store_latency: timedelta
    """Latency of one small write."""
    queued_count: int
    """Number of slices in the queues of P0 and P1."""
    backlog_ages: Mapping[Pool, timedelta]
    """Age of the oldest burst with runnable slices, by pool. Throttled pools and pools without slices are missing."""


SLOW_STORE_LATENCY = timedelta(milliseconds=50)
"""Latency from which P2 slows down: ten times that of an idle store."""
STUCK_STORE_LATENCY = timedelta(milliseconds=500)
"""Latency at which P2 stops."""
LONG_QUEUE, FULL_QUEUE = 64, 96
"""Queued slices from which P2 slows down, and at which it stops.

P0 and P1 together have credits for 96 slices. If two thirds of these are queued, the queue isn't being drained.
"""
LATE_BACKLOG_AGES = {Pool.P0: timedelta(seconds=5), Pool.P1: timedelta(seconds=10)}
"""Backlog age from which P2 slows down, by pool. At three times as much P2 stops.

The ages are slightly more than the largest burst takes alone on a small machine.
"""


def backpressure(readings: Readings) -> float:
    """Return the backpressure on P2, from 0 (none) to 1 (stopped)."""
    shares = [
        (readings.store_latency - SLOW_STORE_LATENCY) / (STUCK_STORE_LATENCY - SLOW_STORE_LATENCY),
        (readings.queued_count - LONG_QUEUE) / (FULL_QUEUE - LONG_QUEUE),
        *(
            (readings.backlog_ages[pool] / late_age - 1) / 2
            for pool, late_age in LATE_BACKLOG_AGES.items()
            if pool in readings.backlog_ages
        ),
    ]
    return max(0.0, min(1.0, max(shares)))
