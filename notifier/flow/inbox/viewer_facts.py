"""Viewer facts: from a cache if proved current, otherwise from the store."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.errors import CacheUnavailable, NotFound
from notifier.domain.ids import Member, UserId
from notifier.flow.inbox.viewer_and_page_cache import CachedViewer, ViewerCache, facts_ttl, viewer_scopes
from notifier.flow.inbox.viewer_facts_invalidation_and_check import VersionLookups
from notifier.metrics import Metrics
from notifier.ports.inbox_cache_freshness import RememberedPage, RememberedViewer, VersionLookup, ViewerVersionReader
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces
from notifier.ports.viewers_preferences_user_blocks import InboxContext, People

REMEMBER_INTERVAL = timedelta(seconds=30)
"""Minimum interval between two writes of a viewer's page to Redis, however often the page changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerFactsReader:
    """Reads viewer facts through the cache of this process."""

    people: People
    versions: ViewerVersionReader
    lookups: VersionLookups
    viewers: ViewerCache
    clock: Clock
    nonces: Nonces
    metrics: Metrics

    async def current(self, user: UserId) -> CachedViewer:
        """Return the current facts. Raises NotFound and StoreUnavailable."""
        cached, lookup = await self.proved(user, may_wait=True)
        if cached is None:
            cached = await self.read(user, lookup)
            await self.remember(cached)
        return cached

    async def proved(self, user: UserId, *, may_wait: bool) -> tuple[CachedViewer | None, VersionLookup | None]:
        """Return the cached facts if they are proved current, otherwise None; and the look-up for `read`."""
        cached, lookup = self.viewers.get(user), None
        if cached is None:
            lookup = await self.lookups.look_up((), may_wait=may_wait, users=[user])
            cached = self._remembered(user, lookup)
        if cached is not None:
            lookup = await self.lookups.look_up(viewer_scopes(cached.member), may_wait=may_wait)
        return self._if_proved(cached, lookup, self.clock.now()), lookup

    async def read(self, user: UserId, lookup: VersionLookup | None, member: Member | None = None) -> CachedViewer:
        """Read the facts from the store. Raises NotFound and StoreUnavailable."""
        distrust_count, cached_before = self.viewers.distrust_count, self.viewers.get(user)
        if member is None:
            member = cached_before.member if cached_before else await self._member(user)
        # Insert the versions before reading the facts: a change in between removes a version, so the facts are never
        # proved current.
        inserted = await self._insert_versions(member) if lookup is not None else None
        read_at = self.clock.now()
        facts = await self._facts(user, member)
        if facts.member != member:  # the cached number was wrong, and the versions are those of another member
            return await self.read(user, lookup, facts.member)
        pages = cached_before.pages_from(facts.viewer, member) if cached_before else {}
        cached = CachedViewer(
            viewer=next((answer.page.view.viewer for answer in pages.values()), facts.viewer),  # one copy in memory
            member=member,
            versions=inserted.versions if inserted and not inserted.changing else {},
            server_state=lookup.server_state if lookup else 0,
            read_at=read_at,
            first_pages=pages,
            last_page=cached_before.last_page if cached_before else None,
            is_vip=facts.is_vip,
        )
        self.viewers.put(cached, distrust_count)
        return cached

    def _remembered(self, user: UserId, lookup: VersionLookup | None) -> CachedViewer | None:
        """Cache and return facts that another process stored for a VIP. They are not proved current yet."""
        remembered = lookup.remembered.get(user) if lookup else None
        if lookup is None or remembered is None or not self.viewers.trusts(remembered, self.clock.now()):
            self.viewers.remembered_stats.misses.inc()
            return None
        self.viewers.remembered_stats.hits.inc()
        cached = CachedViewer(
            viewer=remembered.viewer,
            member=remembered.member,
            versions=remembered.versions,
            server_state=lookup.server_state,
            read_at=remembered.read_at,
            is_vip=True,
            remembered_page=remembered.page,
        )
        self.viewers.put(cached, self.viewers.distrust_count)
        return cached

    def should_remember(self, cached: CachedViewer) -> bool:
        """Return whether to store a page of the viewer in Redis: for VIPs only, at most once per REMEMBER_INTERVAL."""
        if not cached.is_vip or not cached.versions:
            return False
        return cached.remembered_at is None or self.clock.now() >= cached.remembered_at + REMEMBER_INTERVAL

    async def remember(self, cached: CachedViewer, page: RememberedPage | None = None) -> None:
        """Store a VIP's facts in Redis for other processes, with `page` made from them. Do nothing for other users."""
        if not cached.is_vip or not cached.versions:
            return
        if page is not None:
            cached.remembered_at = self.clock.now()
        remembered = RememberedViewer(
            viewer=cached.viewer, member=cached.member, versions=cached.versions, read_at=cached.read_at, page=page
        )
        try:
            with self.metrics.inbox_redis():
                await self.versions.remember(remembered)
        except CacheUnavailable:
            self.metrics.outages.labels("cache").inc()

    def _if_proved(
        self, cached: CachedViewer | None, lookup: VersionLookup | None, now: datetime
    ) -> CachedViewer | None:
        if cached is not None and cached.is_proved_by(lookup) and now < cached.read_at + facts_ttl(cached.member):
            self.viewers.facts_stats.hits.inc()
            return cached
        self.viewers.facts_stats.misses.inc()
        return None

    async def _member(self, user: UserId) -> Member:
        """Return the cached member number, or look it up. Raises NotFound and StoreUnavailable.

        A cached number may be wrong; `read` then starts over.
        """
        if (cached := await self.people.cached_member(user)) is not None:
            return cached
        with self.metrics.inbox_store():
            member = await self.people.member(user)
        if member is None:
            raise NotFound(f"Unknown user: {user}.")
        return member

    async def _facts(self, user: UserId, member: Member) -> InboxContext:
        """Read the facts and the account's member number. Raises NotFound for a missing account, and StoreUnavailable.

        The versions cover the account's existence, too: a deletion of the account removes a version.
        """
        with self.metrics.inbox_store():
            context = await self.people.open(user, member)
        if context is None:
            self.viewers.forget(user)
            raise NotFound(f"Unknown user: {user}.")
        return context

    async def _insert_versions(self, member: Member) -> VersionLookup | None:
        try:
            with self.metrics.inbox_redis():
                return await self.versions.insert_versions(viewer_scopes(member), self.nonces.new())
        except CacheUnavailable:  # fails open: without versions, later requests do not take the facts for current
            return None
