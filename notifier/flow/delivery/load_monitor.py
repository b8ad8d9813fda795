"""The monitor: reads how ledger, queues and store do, and says how much of P2's credit the dispatcher holds back."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import Readings, pressure
from notifier.domain.ids import Platform
from notifier.domain.push.circuit_breaker import line_class
from notifier.metrics import Metrics
from notifier.ports.cache import BacklogReport, Pressure
from notifier.ports.clock import Clock
from notifier.ports.coordination import Leases, Queue
from notifier.ports.push import LineReport

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
