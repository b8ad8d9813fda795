"""Pool rates after throttles, backpressure and stops; the monitor that sets the backpressure."""

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
"""Credit of a pool stopped by its dead-letter limit. Its slices are not parked: a stop has no end time."""
SAVED_AT_MOST = timedelta(seconds=1)
"""Maximum that a throttled tier saves up, as a span of its rate."""


@dataclass(slots=True)
class Rates:
    """Current throttles, and the saved-up allowance of each throttled tier."""

    throttles: Throttles
    pressure: Pressure
    lane_tallies: LaneTallies
    stopped: Collection[Pool] = ()
    """Pools stopped by their dead-letter limit."""
    allowances: Mapping[Tier, TierLimit] = field(default_factory=dict)
    level: float = 0.0
    saved: dict[Tier, float] = field(default_factory=dict)
    read_at: datetime | None = None
    saved_at: datetime | None = None

    def refresh(self, now: datetime) -> None:
        if due(self.read_at, THROTTLES_READ_EVERY, now):
            throttles = self.throttles.since(now - RAMP)
            self.allowances = {tier: allowance(throttles, tier, now) for tier in TIERS}
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
        except CacheUnavailable:  # fails open: without a report from the monitor there is no backpressure
            return 0.0

    def holding(self) -> Mapping[Pool, str]:
        """Return the throttle of each throttled pool, ramps included."""
        return {Pool(tier): allowed.by for tier, allowed in self.allowances.items() if allowed.by is not None}

    def credits(self) -> Mapping[Pool, Credit]:
        credits = CREDITS | {Pool.P2: CREDITS[Pool.P2].scaled(1.0 - self.level)}
        return credits | dict.fromkeys(self.stopped, NOTHING)


# Monitor: measures ledger, queues and store, and sets how much of P2's credit the dispatcher withholds.

FLAG_LASTS = timedelta(seconds=30)
"""Three rounds: the backpressure of a dead monitor ends after that."""


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
        """Run one round; return the level that was set, or None if another monitor is active."""
        before = self.clock.now()
        if not self.leases.hold("monitor", self.owner, before, self.every * 3):
            return None
        level = pressure(self._readings(before))
        # Fails open: a level that cannot be written expires, and P2 gets its full credit. The outage ends this round.
        self.pressure.raise_to(level, FLAG_LASTS)
        self.metrics.pressure.set(level)
        self._count()
        return level

    def _count(self) -> None:
        alone = Counter(line_class(line) for line in self.lines.told())
        for platform in Platform:
            self.metrics.left_alone.labels(platform).set(alone[platform])

    def _readings(self, before: datetime) -> Readings:
        now, backlog = self.clock.now(), self.report.told()
        return Readings(
            # Holding the lease is a small durable write, so its duration measures the store's latency.
            store_latency=now - before,
            queued=self.queue.depth(Pool.P0) + self.queue.depth(Pool.P1),
            behind={pool: now - pool_backlog.since for pool, pool_backlog in backlog.items() if pool_backlog.since},
        )
