"""Throttle leases: who slowed what, why and until when; what a tier may do now, ramps included."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadThrottle

RAMP = timedelta(seconds=30)
"""After a pause a tier comes back to full speed over this long, so that the parked work isn't a second storm."""
RAMP_CEILING = 2_000_000.0
"""Deliveries a second at the end of a ramp: what one machine writes anyway."""
LONGEST = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    id: str
    tier: Tier
    rate: float | None
    """Deliveries a second; None is a pause."""
    reason: str
    who: str
    starts_at: datetime
    ends_at: datetime

    def active(self, now: datetime) -> bool:
        return self.starts_at <= now < self.ends_at

    def ramping(self, now: datetime) -> bool:
        """One that was lifted before it began held nobody, and has nothing to come back from."""
        return self.starts_at < self.ends_at <= now < self.ends_at + RAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLimit:
    """What a tier may do now: at most `rate` deliveries a second, and the throttle that says so."""

    rate: float | None
    """None is no limit, 0 a pause."""
    by: str | None = None


UNLIMITED = TierLimit(rate=None)


def allowance(throttles: Iterable[Throttle], tier: Tier, now: datetime) -> TierLimit:
    """The narrowest of the tier's active and ramping throttles."""
    rates = [(rate, t.id) for t in throttles if t.tier is tier and (rate := _rate(t, now)) is not None]
    if not rates:
        return UNLIMITED
    rate, by = min(rates)
    return TierLimit(rate=rate, by=by)


def _rate(throttle: Throttle, now: datetime) -> float | None:
    base = throttle.rate or 0.0
    if throttle.active(now):
        return base
    if throttle.ramping(now):
        return base + max(0.0, RAMP_CEILING - base) * ((now - throttle.ends_at) / RAMP) ** 2
    return None


def checked(throttle: Throttle) -> Throttle:
    """The same throttle, or BadThrottle with the sentence that says what is missing."""
    if not throttle.reason.strip():
        raise BadThrottle("The reason is empty.")
    if throttle.tier not in TIERS:
        raise BadThrottle(f"Nothing is delivered to the tier {throttle.tier}.")
    if throttle.rate is not None and not 0 < throttle.rate < inf:
        raise BadThrottle("A rate is a number above 0; to stop a tier, pause it.")
    if not throttle.starts_at < throttle.ends_at <= throttle.starts_at + LONGEST:
        raise BadThrottle("It ends after it starts, and within 7 days.")
    return throttle


# Backpressure: how much of P2's credit to take away, from what the monitor read.


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
