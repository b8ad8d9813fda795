"""Pacing: how many alerts a worker may send to its provider now, also while nobody can say what the others send."""

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

# Easing: what the tab and the store leave of the pace of alerts, asked once a second.

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


ALONE = 10
"""Workers of one provider who, each by itself, stay below its limit together."""


@dataclass(slots=True, kw_only=True)
class Pacing:
    """For one thread of one provider. Raises nothing: without Redis a worker goes on by itself, at a tenth."""

    platform: Platform
    paces: Paces
    easing: Easing
    metrics: Metrics
    terms: Terms | None = None
    """The provider's, as the paces have them; None where those are the usual ones."""
    pace: Pace | None = field(default=None, init=False)
    """Our own, while nobody knows the common one."""

    def draw(self, tier: Tier, wanted: int, now: datetime) -> int:
        """How many may go now, 0 to `wanted`; P0 before the others."""
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
