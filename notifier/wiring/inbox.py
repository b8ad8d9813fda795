"""Builders of the read path: inbox, gap fetch, audit and ports that announce writes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from notifier.flow.inbox.audit import Audit
from notifier.flow.inbox.change_follower import ChangeFollower
from notifier.flow.inbox.gap_fetch import GapFetch
from notifier.flow.inbox.inbox import Inbox, OpeningObserver, UncachedInbox
from notifier.flow.inbox.invalidation import AsyncInvalidation, SharedVersionLookups, VersionCheck
from notifier.flow.inbox.last_known_pages import PageRenderer
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.flow.inbox.store_breaker import ReadDeadline, StoreBreaker
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.versioned_ports import VersionedPeople, VersionedPreferences
from notifier.flow.inbox.viewer_cache import ViewerCache
from notifier.flow.inbox.viewer_facts import ViewerFacts
from notifier.metrics import CacheHits, Metrics
from notifier.ports.all_ports import ReadPorts

MEGABYTE = 1_000_000
VIEWER_SHARE = 0.5
"""Share of the caches' memory for viewers. The rest is for bursts, which many viewers share."""


def build_uncached_inbox(reads: ReadPorts, observers: Sequence[OpeningObserver] = ()) -> UncachedInbox:
    """Build the inbox without caches, for single pages and for live streams."""
    return UncachedInbox(
        people=build_versioned_people(reads),
        timeline=reads.timeline,
        pull=reads.pull,
        clock=reads.clock,
        observers=observers,
    )


def build_inbox(
    reads: ReadPorts,
    *,
    metrics: Metrics,
    loads: Callable[[], SharedLoads[Any, Any]],
    deadline: ReadDeadline,
    megabytes: int,
    share_lookups_within: timedelta | None = None,
    observers: Sequence[OpeningObserver] = (),
    renderer: PageRenderer | None = None,
    renderer_id: bytes = b"",
) -> Inbox:
    """Build the inbox with its caches, one per process.

    Each cache shares its loads among concurrent requests, by an object that `loads` returns. With
    `share_lookups_within` concurrent requests also share their version checks, and an impatient request waits no longer
    than that.
    """
    viewer_bytes = int(megabytes * MEGABYTE * VIEWER_SHARE)
    subjects = SubjectCache(
        timeline=reads.timeline,
        pull=reads.pull,
        clock=reads.clock,
        metrics=metrics,
        loads=loads(),
        subject_loads=loads(),
        extensions=loads(),
        max_bytes=megabytes * MEGABYTE - viewer_bytes,
    )
    viewers = ViewerCache(
        max_bytes=viewer_bytes,
        hits=CacheHits(metrics.inbox_cache, "viewers"),
        page_hits=CacheHits(metrics.inbox_cache, "pages"),
        remembered_hits=CacheHits(metrics.inbox_cache, "redis"),
    )
    follower = ChangeFollower(
        changes=reads.burst_changes, subjects=subjects, viewers=viewers, clock=reads.clock, metrics=metrics
    )
    version_check = VersionCheck(versions=reads.versions, follower=follower, metrics=metrics)
    people = build_versioned_people(reads)
    facts = ViewerFacts(
        people=people,
        versions=reads.versions,
        lookups=version_check
        if share_lookups_within is None
        else SharedVersionLookups(lookups=version_check, within=share_lookups_within),
        viewers=viewers,
        clock=reads.clock,
        nonces=reads.nonces,
        metrics=metrics,
    )
    return Inbox(
        people=people,
        facts=facts,
        subjects=subjects,
        viewers=viewers,
        deadline=deadline,
        breaker=StoreBreaker(),
        clock=reads.clock,
        metrics=metrics,
        observers=observers,
        renderer=renderer,
        renderer_id=renderer_id,
    )


def build_gap_fetch(reads: ReadPorts) -> GapFetch:
    """Build the fetch of bursts that a client missed in one subject."""
    return GapFetch(people=reads.people, timeline=reads.timeline, clock=reads.clock)


def build_audit(reads: ReadPorts, metrics: Metrics, pause: Callable[[float], Awaitable[object]]) -> Audit:
    """Build the audit, which recomputes a page from the canonical bursts."""
    return Audit(people=reads.people, timeline=reads.timeline, metrics=metrics, pause=pause)


def build_versioned_people(reads: ReadPorts) -> VersionedPeople:
    """Build the port of viewers that notifies all caches of each write."""
    return VersionedPeople(people=reads.people, invalidation=_build_invalidation(reads))


def build_versioned_preferences(reads: ReadPorts) -> VersionedPreferences:
    """Build the port of preferences that notifies all caches of each write."""
    return VersionedPreferences(preferences=reads.preferences, invalidation=_build_invalidation(reads))


def _build_invalidation(reads: ReadPorts) -> AsyncInvalidation:
    return AsyncInvalidation(versions=reads.versions, changes=reads.burst_changes, nonces=reads.nonces)
