"""The read path's ports, all asynchronous, and the stages wired from them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from notifier.flow.audit import Audit
from notifier.flow.tab import Tab, Watch, unwatched
from notifier.ports.activity import Activity
from notifier.ports.burst_changes import BurstChanges
from notifier.ports.bus import LiveReader
from notifier.ports.clock import Clock
from notifier.ports.people import People
from notifier.ports.preferences import Preferences
from notifier.ports.pull import PullReader
from notifier.ports.timeline import Timeline
from notifier.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The read path's, all asynchronous."""

    people: People
    preferences: Preferences
    timeline: Timeline
    burst_changes: BurstChanges
    pull: PullReader
    activity: Activity
    live: LiveReader
    clock: Clock

    def tab(self, watch: Watch = unwatched) -> Tab:
        return Tab(people=self.people, timeline=self.timeline, pull=self.pull, clock=self.clock, watch=watch)

    def audit(self, metrics: Metrics, pause: Callable[[], Awaitable[object]]) -> Audit:
        return Audit(people=self.people, timeline=self.timeline, metrics=metrics, pause=pause)
