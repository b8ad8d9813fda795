"""The read path's ports, all asynchronous, and the stages wired from them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from notifier.flow.inbox.audit import Audit
from notifier.flow.inbox.change_follower import ChangeFollower
from notifier.flow.inbox.gap_fetch import GapFetch
from notifier.flow.inbox.inbox import Inbox, Tab, Watch, unwatched
from notifier.flow.inbox.invalidation import AsyncInvalidation
from notifier.flow.inbox.looks import Look, Looks
from notifier.flow.inbox.remembered_page import Render, not_rendered
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.flow.inbox.store_breaker import Deadline, StoreBreaker
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.versioned_ports import VersionedPeople, VersionedPreferences
from notifier.flow.inbox.viewer_cache import ViewerCache
from notifier.flow.inbox.viewer_facts import ViewerFacts
from notifier.metrics import Hits, Metrics
from notifier.ports.audience import Activity
from notifier.ports.clock import Clock, Nonces
from notifier.ports.inbox import Timeline
from notifier.ports.inbox_versions import BurstChanges, InboxVersions
from notifier.ports.live_bus import LiveReader
from notifier.ports.people import People
from notifier.ports.pull_index import PullReader
from notifier.ports.user_preferences import Preferences

MEGABYTE = 1_000_000
OF_VIEWERS = 0.5
"""Their share of the caches' memory; the rest is for bursts, which viewers share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The read path's, all asynchronous."""

    people: People
    preferences: Preferences
    timeline: Timeline
    burst_changes: BurstChanges
    pull: PullReader
    versions: InboxVersions
    activity: Activity
    live: LiveReader
    clock: Clock
    nonces: Nonces

    def tab(self, watch: Watch = unwatched) -> Tab:
        return Tab(
            people=self.versioned_people(), timeline=self.timeline, pull=self.pull, clock=self.clock, watch=watch
        )

    def inbox(
        self,
        *,
        metrics: Metrics,
        loads: Callable[[], SharedLoads[Any, Any]],
        deadline: Deadline,
        megabytes: int,
        share: Callable[[Looks], Looks],
        watch: Watch = unwatched,
        render: Render = not_rendered,
        maker: bytes = b"",
    ) -> Inbox:
        """One per process. `loads` and `share` decide what concurrent requests have in common."""
        of_viewers = int(megabytes * MEGABYTE * OF_VIEWERS)
        subjects = SubjectCache(
            timeline=self.timeline,
            pull=self.pull,
            clock=self.clock,
            metrics=metrics,
            loads=loads(),
            subject_loads=loads(),
            extensions=loads(),
            most_bytes=megabytes * MEGABYTE - of_viewers,
        )
        viewers = ViewerCache(
            most_bytes=of_viewers,
            hits=Hits(metrics.inbox_cache, "viewers"),
            page_hits=Hits(metrics.inbox_cache, "pages"),
            remembered_hits=Hits(metrics.inbox_cache, "redis"),
        )
        follower = ChangeFollower(
            changes=self.burst_changes, subjects=subjects, viewers=viewers, clock=self.clock, metrics=metrics
        )
        people = self.versioned_people()
        facts = ViewerFacts(
            people=people,
            versions=self.versions,
            looks=share(Look(versions=self.versions, follower=follower, metrics=metrics)),
            viewers=viewers,
            clock=self.clock,
            nonces=self.nonces,
            metrics=metrics,
        )
        return Inbox(
            people=people,
            facts=facts,
            subjects=subjects,
            viewers=viewers,
            deadline=deadline,
            breaker=StoreBreaker(),
            clock=self.clock,
            metrics=metrics,
            watch=watch,
            render=render,
            maker=maker,
        )

    def gap_fetch(self) -> GapFetch:
        return GapFetch(people=self.people, timeline=self.timeline, clock=self.clock)

    def audit(self, metrics: Metrics, pause: Callable[[], Awaitable[object]]) -> Audit:
        return Audit(people=self.people, timeline=self.timeline, metrics=metrics, pause=pause)

    def versioned_people(self) -> VersionedPeople:
        return VersionedPeople(people=self.people, invalidation=self._invalidation())

    def versioned_preferences(self) -> VersionedPreferences:
        return VersionedPreferences(preferences=self.preferences, invalidation=self._invalidation())

    def _invalidation(self) -> AsyncInvalidation:
        return AsyncInvalidation(versions=self.versions, changes=self.burst_changes, nonces=self.nonces)
