"""Credits of pools and allowances of throttled tiers, and the monitor that sets the backpressure."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.scheduling import POOL_CREDITS, Credit
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import RAMP, Readings, TierLimit, backpressure, tier_limit
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.domain.push.circuit_breaker import provider_of
from notifier.domain.timing import is_due
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock, Leases, Queue, Throttles
from notifier.ports.disposable_state import BacklogReport, Backpressure
from notifier.ports.event_log import DeadLetterTallies
from notifier.ports.push import CircuitReport

LIMITS_READ_INTERVAL = timedelta(seconds=1)
"""Interval between reads of throttles, backpressure and stopped pools."""
NO_CREDIT = Credit(slices=0, shards=0)
"""Credit of a pool that its dead-letter limit has stopped. Its slices are not parked, since a stop has no end time."""
MAX_SAVING_TIME = timedelta(seconds=1)
"""A throttled tier's allowance holds at most what the tier's rate allows in this time."""


@dataclass(slots=True)
class PoolRates:
    """Credits of the pools, and limits and allowances of throttled tiers. The dispatcher has one instance."""

    throttles: Throttles
    backpressure: Backpressure
    lane_tallies: DeadLetterTallies
    stopped_pools: Collection[Pool] = ()
    """Pools stopped by their dead-letter limit."""
    limits: Mapping[Tier, TierLimit] = field(default_factory=dict)
    """Current limit of each tier, from its throttles."""
    backpressure_level: float = 0.0
    """Share of P2's credit that backpressure withholds, from 0 to 1."""
    allowances: dict[Tier, float] = field(default_factory=dict)
    """Number of expected recipients whose slices may be queued now, by throttled tier. It grows at the tier's rate."""
    read_at: datetime | None = None
    allowances_at: datetime | None = None
    """Time up to which the growth is included in `allowances`."""

    def refresh(self, now: datetime) -> None:
        """Read throttles, backpressure and stopped pools if that is due, and let the allowances grow."""
        if is_due(self.read_at, LIMITS_READ_INTERVAL, now):
            throttles = self.throttles.since(now - RAMP)
            self.limits = {tier: tier_limit(throttles, tier, now) for tier in TIERS}
            self.backpressure_level = self._read_level()
            tallies = self.lane_tallies.read([str(pool) for pool in Pool])
            self.stopped_pools = {pool for pool in Pool if tallies[pool].stop is not None}
            self.read_at = now
        elapsed = max(0.0, (now - self.allowances_at).total_seconds()) if self.allowances_at else 0.0
        for tier, limit in self.limits.items():
            if limit.rate is None:
                self.allowances.pop(tier, None)
            else:
                max_allowance = limit.rate * MAX_SAVING_TIME.total_seconds()
                self.allowances[tier] = min(max_allowance, self.allowances.get(tier, 0.0) + limit.rate * elapsed)
        self.allowances_at = now

    def _read_level(self) -> float:
        try:
            return self.backpressure.level()
        except CacheUnavailable:  # fails open: while the cache is down there is no backpressure
            return 0.0

    def throttles_by_pool(self) -> Mapping[Pool, str]:
        """Return the throttle id of each throttled pool, including pools that ramp up after the end of a throttle."""
        return {Pool(tier): limit.throttle_id for tier, limit in self.limits.items() if limit.throttle_id is not None}

    def credits(self) -> Mapping[Pool, Credit]:
        credits = POOL_CREDITS | {Pool.P2: POOL_CREDITS[Pool.P2].scaled(1.0 - self.backpressure_level)}
        return credits | dict.fromkeys(self.stopped_pools, NO_CREDIT)


# Monitor: measures ledger, queues and store, and sets how much of P2's credit the dispatcher withholds.

LEVEL_ROUNDS = 3
"""Lifetime of a level, in rounds of the monitor. If the monitor crashes, the backpressure ends by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMonitor:
    leases: Leases
    queue: Queue
    backlog_report: BacklogReport
    backpressure: Backpressure
    circuit_report: CircuitReport
    clock: Clock
    metrics: Metrics
    owner: str
    interval: timedelta = timedelta(seconds=10)

    def __call__(self) -> float | None:
        """Run one round; return the level that was set, or None if another monitor is active."""
        began_at = self.clock.now()
        if not self.leases.acquire("monitor", self.owner, began_at, self.interval * 3):
            return None
        level = backpressure(self._read_load(began_at))
        # Fails open: if the cache is down, this call raises and ends the round. The last level then expires, and P2
        # gets its full credit.
        self.backpressure.set_level(level, self.interval * LEVEL_ROUNDS)
        self.metrics.backpressure.set(level)
        self._count_open_circuits()
        return level

    def _count_open_circuits(self) -> None:
        open_circuits = Counter(provider_of(line) for line in self.circuit_report.read())
        for platform in Platform:
            self.metrics.open_circuits.labels(platform).set(open_circuits[platform])

    def _read_load(self, began_at: datetime) -> Readings:
        now, backlog = self.clock.now(), self.backlog_report.read()
        return Readings(
            # The round began with taking the lease, a small durable write, so its duration is the store's latency.
            store_latency=now - began_at,
            queued=self.queue.depth(Pool.P0) + self.queue.depth(Pool.P1),
            backlog_ages={
                pool: now - pool_backlog.oldest_opened_at
                for pool, pool_backlog in backlog.items()
                if pool_backlog.oldest_opened_at
            },
        )
