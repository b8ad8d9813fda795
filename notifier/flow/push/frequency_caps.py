"""Cap step: decides which members may get another alert."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member
from notifier.domain.push.frequency_cap import AlertCause, AlertHistory, CapLimits, Ruling, ruling_on, with_alert
from notifier.metrics import Metrics
from notifier.ports.push import FrequencyCapStore

MAX_REMEMBERED_MEMBERS = 100_000
"""Maximum number of members in `local_histories`: those alerted most recently. 70 MB if each was alerted five times."""


@dataclass(slots=True, kw_only=True)
class FrequencyCaps:
    """Frequency caps for one thread. Raises nothing: without Redis it counts only the alerts of its own thread.

    So during an outage each worker may send a member as many alerts as the caps allow.
    """

    store: FrequencyCapStore
    metrics: Metrics
    limits: CapLimits = field(default_factory=CapLimits)
    """The caps, used while Redis is unavailable."""
    local_histories: OrderedDict[Member, AlertHistory] = field(default_factory=OrderedDict, init=False)
    """Alerts that were counted here while Redis was unavailable, by member."""

    def spend(self, burst: Burst, members: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        """Return the ruling for each member. New alerts are counted in the same step."""
        try:
            return self.store.spend(burst.key, burst.tweet, members, now)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()
        cause = AlertCause.of(burst.key, burst.tweet)
        return {member: self._spend_locally(member, cause, now) for member in members}

    def _spend_locally(self, member: Member, cause: AlertCause, now: datetime) -> Ruling:
        history = self.local_histories.get(member, ())
        ruling = ruling_on(history, cause, now, self.limits)
        if ruling is Ruling.NEW:
            self.local_histories[member] = with_alert(history, cause, now, self.limits)
            self.local_histories.move_to_end(member)
            if len(self.local_histories) > MAX_REMEMBERED_MEMBERS:
                self.local_histories.popitem(last=False)
        return ruling
