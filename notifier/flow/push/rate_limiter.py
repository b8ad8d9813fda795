"""Rate limiting: how many alerts a worker may send now."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import is_due
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.domain.push.rate_limit import PROVIDER_LIMITS, ProviderLimit, ProviderRate, draw, report_results, slowdown
from notifier.metrics import Metrics
from notifier.ports.push import InboxLatencyReport, ProviderRates
from notifier.ports.recent_events_and_load_limits import Backpressure

# Slowdown: alerts are sent at a lower rate while inbox pages are slow, or the monitor sets backpressure.

SLOWDOWN_READ_INTERVAL = timedelta(seconds=1)
"""Interval between reads of the inbox latency and of the backpressure."""


@dataclass(slots=True, kw_only=True)
class Slowdown:
    """Returns the factor for the alert rate; 1 is the full rate."""

    inbox_latency: InboxLatencyReport
    backpressure: Backpressure
    metrics: Metrics
    factor: float = 1.0
    read_at: datetime | None = None

    def __call__(self, now: datetime) -> float:
        if is_due(self.read_at, SLOWDOWN_READ_INTERVAL, now):
            self.factor, self.read_at = self._read_factor(), now
            self.metrics.push_slowdown.set(self.factor)
        return self.factor

    def _read_factor(self) -> float:
        try:
            return slowdown(self.inbox_latency.worst(), self.backpressure.level())
        except CacheUnavailable:  # fails open: without reports alerts are not slowed down
            return 1.0


LOCAL_LIMIT_DIVISOR = 10
"""Divisor of the provider's limit while Redis is unavailable: up to ten workers together then stay within the limit."""


@dataclass(slots=True, kw_only=True)
class RateLimiter:
    """Rate limit for one thread and one provider. Raises nothing: without Redis it allows a tenth of the rate."""

    platform: Platform
    provider_rates: ProviderRates
    slowdown: Slowdown
    metrics: Metrics
    limit: ProviderLimit | None = None
    """The provider's limit for all workers together, used while Redis is unavailable; None for the default."""
    local_rate: ProviderRate | None = field(default=None, init=False)
    """Rate of this thread alone, used while Redis is unavailable."""

    def draw(self, tier: Tier, wanted: int, now: datetime) -> int:
        """Return how many alerts may be sent now, from 0 to `wanted`. A share of the rate is reserved for P0."""
        is_p0, slowdown_factor = tier is Tier.P0, self.slowdown(now)
        try:
            return self.provider_rates.draw(
                self.platform, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor, now=now
            )
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
        self.local_rate, granted = draw(
            self.local_rate, self._local_limit, now, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor
        )
        return granted

    def report_results(self, now: datetime, *, refused_count: int, is_slow: bool) -> None:
        """Report the results of a send group, which adapt the rate."""
        try:
            self.provider_rates.report_results(self.platform, refused_count=refused_count, is_slow=is_slow, now=now)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
            self.local_rate = report_results(
                self.local_rate, self._local_limit, now, refused_count=refused_count, is_slow=is_slow
            )

    @property
    def _local_limit(self) -> ProviderLimit:
        return (self.limit or PROVIDER_LIMITS[self.platform]).shared(LOCAL_LIMIT_DIVISOR)
