"""The rates: what throttles, overload and stops leave of each pool, and what a throttled tier has saved up."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.scheduling import CREDITS, Credit
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import RAMP, Readings, TierLimit, allowance, pressure
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.domain.push.circuit_breaker import line_class
from notifier.domain.timing import due
from notifier.metrics import Metrics
from notifier.ports.cache import BacklogReport, Pressure
from notifier.ports.coordination import Clock, Leases, Queue, Throttles
from notifier.ports.event_log import LaneTallies
from notifier.ports.push import LineReport

THROTTLES_READ_EVERY = timedelta(seconds=1)
NOTHING = Credit(slices=0, shards=0)
"""Credit of a pool that is stopped by its dead-letter limit. Nothing is parked: a stop has no end."""
SAVED_AT_MOST = timedelta(seconds=1)
"""A throttled tier saves up this much of its rate and no more."""


@dataclass(slots=True)
class Rates:
    """What the throttles say now, and what each throttled tier's rate has saved up."""

    throttles: Throttles
    pressure: Pressure
    lane_tallies: LaneTallies
    stopped: Collection[Pool] = ()
    """Pools that are stopped by their dead-letter limit."""
    allowances: Mapping[Tier, TierLimit] = field(default_factory=dict)
    level: float = 0.0
    saved: dict[Tier, float] = field(default_factory=dict)
    read_at: datetime | None = None
    saved_at: datetime | None = None

    def refresh(self, now: datetime) -> None:
        if due(self.read_at, THROTTLES_READ_EVERY, now):
            found = self.throttles.since(now - RAMP)
            self.allowances = {tier: allowance(found, tier, now) for tier in TIERS}
            self.level = self._level()
            tallies = self.lane_tallies.read([str(pool) for pool in Pool])
            self.stopped = {pool for pool in Pool if tallies[pool].stop is not None}
            self.read_at = now
        passed = max(0.0, (now - self.saved_at).total_seconds()) if self.saved_at else 0.0
        for tier, allowed in self.allowances.items():
            if allowed.rate is None:
                self.saved.pop(tier, None)
            else:
                most = allowed.rate * SAVED_AT_MOST.total_seconds()
                self.saved[tier] = min(most, self.saved.get(tier, 0.0) + allowed.rate * passed)
        self.saved_at = now

    def _level(self) -> float:
        try:
            return self.pressure.level()
        except CacheUnavailable:  # fails open: without a monitor's word nobody is held back
            return 0.0

    def holding(self) -> Mapping[Pool, str]:
        """The throttle of each pool that has one, ramps included."""
        return {Pool(tier): allowed.by for tier, allowed in self.allowances.items() if allowed.by is not None}

    def credits(self) -> Mapping[Pool, Credit]:
        credits = CREDITS | {Pool.P2: CREDITS[Pool.P2].scaled(1.0 - self.level)}
        return credits | dict.fromkeys(self.stopped, NOTHING)


# The monitor: reads how ledger, queues and store do, and says how much of P2's credit the dispatcher holds back.

FLAG_LASTS = timedelta(seconds=30)
"""Three rounds: a monitor that died holds nobody back for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    leases: Leases
    queue: Queue
    report: BacklogReport
    pressure: Pressure
    lines: LineReport
    clock: Clock
    metrics: Metrics
    owner: str
    every: timedelta = timedelta(seconds=10)

    def __call__(self) -> float | None:
        """The level it set; None when another monitor is at work."""
        before = self.clock.now()
        if not self.leases.hold("monitor", self.owner, before, self.every * 3):
            return None
        level = pressure(self._readings(before))
        # Fails open: a level that couldn't be said runs out, and P2 is held back by nobody. The outage ends this round.
        self.pressure.raise_to(level, FLAG_LASTS)
        self.metrics.pressure.set(level)
        self._count()
        return level

    def _count(self) -> None:
        alone = Counter(line_class(line) for line in self.lines.told())
        for platform in Platform:
            self.metrics.left_alone.labels(platform).set(alone[platform])

    def _readings(self, before: datetime) -> Readings:
        now, told = self.clock.now(), self.report.told()
        return Readings(
            # Holding the lease was a small durable write: its time is the store's latency as everybody has it.
            store_latency=now - before,
            queued=self.queue.depth(Pool.P0) + self.queue.depth(Pool.P1),
            behind={pool: now - behind.since for pool, behind in told.items() if behind.since},
        )
