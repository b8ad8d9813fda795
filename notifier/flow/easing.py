"""Easing: what the tab and the store leave of the pace of alerts, asked once a second."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.errors import CacheUnavailable
from notifier.domain.push.rate_limit import ease
from notifier.domain.timing import due
from notifier.ports.cache import Pressure
from notifier.ports.push import TabReport
from notifier.telemetry import Metrics

ASKED_EVERY = timedelta(seconds=1)


@dataclass(slots=True, kw_only=True)
class Easing:
    tabs: TabReport
    pressure: Pressure
    metrics: Metrics
    left: float = 1.0
    asked_at: datetime | None = None

    def __call__(self, now: datetime) -> float:
        if due(self.asked_at, ASKED_EVERY, now):
            self.left, self.asked_at = self._ask(), now
            self.metrics.ease.set(self.left)
        return self.left

    def _ask(self) -> float:
        try:
            return ease(self.tabs.worst(), self.pressure.level())
        except CacheUnavailable:  # fails open: without anybody's word alerts aren't held back
            return 1.0
