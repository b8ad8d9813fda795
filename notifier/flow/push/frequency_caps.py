"""Capping: whose phone may ring for a burst, by what rang already; also while nobody but this process remembers."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member
from notifier.domain.push.frequency_cap import Caps as Terms
from notifier.domain.push.frequency_cap import Cause, History, Ruling, judged, spent
from notifier.metrics import Metrics
from notifier.ports.push import Caps

MOST = 100_000
"""People, those who were alerted last; 70 MB where each was alerted five times."""


@dataclass(slots=True, kw_only=True)
class Capping:
    """For one thread. Raises nothing: without Redis a process knows whom it alerted itself since then. So in an outage
    somebody may get a cap's worth from each worker, and no more."""

    caps: Caps
    metrics: Metrics
    terms: Terms = field(default_factory=Terms)
    days: OrderedDict[Member, History] = field(default_factory=OrderedDict, init=False)
    """Our own, while nobody knows the common ones."""

    def __call__(self, burst: Burst, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        """What holds for each of them; those for whom it is new are counted as alerted."""
        try:
            return self.caps.spend(burst.key, burst.tweet, people, now)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
        cause = Cause.of(burst.key, burst.tweet)
        return {member: self._alone(member, cause, now) for member in people}

    def _alone(self, member: Member, cause: Cause, now: datetime) -> Ruling:
        history = self.days.get(member, ())
        ruling = judged(history, cause, now, self.terms)
        if ruling is Ruling.NEW:
            self.days[member] = spent(history, cause, now, self.terms)
            self.days.move_to_end(member)
            if len(self.days) > MOST:
                self.days.popitem(last=False)
        return ruling
