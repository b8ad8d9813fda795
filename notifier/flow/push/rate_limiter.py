"""Rate limiting: how many alerts a worker may send now, with a fallback without Redis."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.domain.push.rate_limit import TERMS, Pace, Terms, drawn, ease, told
from notifier.domain.timing import due
from notifier.metrics import Metrics
from notifier.ports.cache import Pressure
from notifier.ports.push import Paces, TabReport

# Slowdown: the share of the alert rate that inbox latency and backpressure leave, read once a second.

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
        except CacheUnavailable:  # fails open: without reports alerts are not slowed down
            return 1.0


ALONE = 10
"""Divisor of the provider's limit without Redis: ten workers on their own stay below the limit together."""


@dataclass(slots=True, kw_only=True)
class Pacing:
    """Rate limit for one thread and one provider. Raises nothing: without Redis it allows a tenth of the rate."""

    platform: Platform
    paces: Paces
    easing: Easing
    metrics: Metrics
    terms: Terms | None = None
    """The provider's rate settings, as the shared rates use them; None for the defaults."""
    pace: Pace | None = field(default=None, init=False)
    """This process's own rate, used while the shared one is unavailable."""

    def draw(self, tier: Tier, wanted: int, now: datetime) -> int:
        """Return how many alerts may be sent now, from 0 to `wanted`. P0 takes precedence over the other tiers."""
        urgent, ease = tier is Tier.P0, self.easing(now)
        try:
            return self.paces.draw(self.platform, wanted, urgent=urgent, ease=ease, now=now)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
        self.pace, granted = drawn(self.pace, self._alone, now, wanted, urgent=urgent, ease=ease)
        return granted

    def tell(self, now: datetime, *, refused: int, slow: bool) -> None:
        try:
            self.paces.tell(self.platform, refused=refused, slow=slow, now=now)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
            self.pace = told(self.pace, self._alone, now, refused=refused, slow=slow)

    @property
    def _alone(self) -> Terms:
        return (self.terms or TERMS[self.platform]).shared(ALONE)
