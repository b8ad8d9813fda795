"""Builders of the read path: inbox, gap fetch, audit, and ports whose writes invalidate caches."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from notifier.flow.inbox.cache_invalidating_ports import VersionedPeople, VersionedPreferences
from notifier.flow.inbox.change_feed_follower import ChangeFollower
from notifier.flow.inbox.gap_fetch import GapFetch
from notifier.flow.inbox.inbox import AnswerObserver, Inbox, UncachedInbox
from notifier.flow.inbox.last_known_and_shared_pages import PageRenderer
from notifier.flow.inbox.page_audit import Audit
from notifier.flow.inbox.page_deadline_and_breaker import ReadDeadline, StoreBreaker
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.viewer_and_page_cache import ViewerCache
from notifier.flow.inbox.viewer_facts import ViewerFactsReader
from notifier.flow.inbox.viewer_facts_invalidation_and_check import (
    AsyncInvalidation,
    SharedVersionLookups,
    VersionCheck,
)
from notifier.metrics import CacheCounters, Metrics
from notifier.ports.all_ports import ReadPorts

MEGABYTE = 1_000_000
VIEWER_MEMORY_SHARE = 0.5
"""Share of the caches' memory for the facts and pages of viewers. The rest is for bursts, which many viewers share."""


def build_uncached_inbox(ports: ReadPorts, observers: Sequence[AnswerObserver] = ()) -> UncachedInbox:
    return UncachedInbox(
        people=build_versioned_people(ports),
        timeline=ports.timeline,
        pull=ports.pull,
        clock=ports.clock,
        observers=observers,
    )


def build_inbox(
    ports: ReadPorts,
    *,
    metrics: Metrics,
    new_shared_loads: Callable[[], SharedLoads[Any, Any]],
    deadline: ReadDeadline,
    cache_megabytes: int,
    max_lookup_wait: timedelta | None = None,
    observers: Sequence[AnswerObserver] = (),
    renderer: PageRenderer | None = None,
    renderer_id: bytes = b"",
) -> Inbox:
    """Build the inbox with its caches, once per process.

    `new_shared_loads` creates the objects through which concurrent requests for the same data share one load. If
    `max_lookup_wait` is set, concurrent requests also share their version checks. A request with a fallback page then
    gives up a check after about this time.

    `renderer_id` identifies the software and the secret that render pages.
    """
    viewer_bytes = int(cache_megabytes * MEGABYTE * VIEWER_MEMORY_SHARE)
    subject_cache = SubjectCache(
        timeline=ports.timeline,
        pull=ports.pull,
        clock=ports.clock,
        metrics=metrics,
        burst_loads=new_shared_loads(),
        list_loads=new_shared_loads(),
        extension_loads=new_shared_loads(),
        max_bytes=cache_megabytes * MEGABYTE - viewer_bytes,
    )
    viewers = ViewerCache(
        max_bytes=viewer_bytes,
        facts_stats=CacheCounters(metrics.inbox_cache, "viewers"),
        page_stats=CacheCounters(metrics.inbox_cache, "pages"),
        remembered_stats=CacheCounters(metrics.inbox_cache, "redis"),
    )
    follower = ChangeFollower(
        changes=ports.burst_changes, subject_cache=subject_cache, viewers=viewers, clock=ports.clock, metrics=metrics
    )
    version_check = VersionCheck(versions=ports.versions, follower=follower, metrics=metrics)
    people = build_versioned_people(ports)
    facts = ViewerFactsReader(
        people=people,
        versions=ports.versions,
        lookups=version_check
        if max_lookup_wait is None
        else SharedVersionLookups(lookups=version_check, max_wait=max_lookup_wait),
        viewers=viewers,
        clock=ports.clock,
        nonces=ports.nonces,
        metrics=metrics,
    )
    return Inbox(
        people=people,
        facts=facts,
        subject_cache=subject_cache,
        viewers=viewers,
        first_pages=new_shared_loads(),
        deadline=deadline,
        breaker=StoreBreaker(),
        clock=ports.clock,
        metrics=metrics,
        observers=observers,
        renderer=renderer,
        renderer_id=renderer_id,
    )


def build_gap_fetch(ports: ReadPorts) -> GapFetch:
    return GapFetch(people=ports.people, timeline=ports.timeline, clock=ports.clock)


def build_audit(ports: ReadPorts, metrics: Metrics, pause: Callable[[float], Awaitable[object]]) -> Audit:
    return Audit(people=ports.people, timeline=ports.timeline, metrics=metrics, pause=pause)


def build_versioned_people(ports: ReadPorts) -> VersionedPeople:
    """Build the `People` port whose writes invalidate the caches of all processes."""
    return VersionedPeople(people=ports.people, invalidation=_build_invalidation(ports))


def build_versioned_preferences(ports: ReadPorts) -> VersionedPreferences:
    """Build the `Preferences` port whose writes invalidate the caches of all processes."""
    return VersionedPreferences(preferences=ports.preferences, invalidation=_build_invalidation(ports))


def _build_invalidation(ports: ReadPorts) -> AsyncInvalidation:
    return AsyncInvalidation(versions=ports.versions, changes=ports.burst_changes, nonces=ports.nonces)
