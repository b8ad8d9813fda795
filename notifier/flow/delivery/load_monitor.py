"""Load monitor: measures backlog, queues and store, and sets the backpressure."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import Readings, backpressure
from notifier.domain.ids import Platform
from notifier.domain.push.circuit_breaker import provider_of
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock, Leases, Queue
from notifier.ports.push import CircuitReport
from notifier.ports.recent_events_and_load_limits import BacklogReport, Backpressure

LIFETIME_ROUNDS = 3
"""Lifetime of a backpressure level and of the lease, in rounds of the monitor.

If the monitor crashes, both expire: the backpressure ends, and another monitor takes over.
"""


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
        if not self.leases.acquire("monitor", self.owner, began_at, self.interval * LIFETIME_ROUNDS):
            return None
        level = backpressure(self._read_load(began_at))
        # Fails open: if the cache is down, the round ends with an error. The last level expires, and P2 gets its full
        # credit.
        self.backpressure.set_level(level, self.interval * LIFETIME_ROUNDS)
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
            # Since `began_at` the round has only taken the lease, a small durable write.
            store_latency=now - began_at,
            queued_count=self.queue.depth(Pool.P0) + self.queue.depth(Pool.P1),
            backlog_ages={
                pool: now - pool_backlog.oldest_opened_at
                for pool, pool_backlog in backlog.items()
                if pool_backlog.oldest_opened_at
            },
        )
