"""Cache of viewers' facts, their versions, and first pages."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.visibility import MAX_CLOCK_SKEW, Marks, Viewer
from notifier.flow.inbox.newest_bursts_and_change_times import ChangeTimes
from notifier.flow.inbox.page import Badge, Page
from notifier.metrics import CacheCounters
from notifier.ports.inbox_cache_freshness import (
    ALL_MEMBERS,
    REMEMBERED_VIEWER_TTL,
    RememberedPage,
    RememberedViewer,
    Scope,
    VersionLookup,
    member_scope,
)

FACTS_TTL = REMEMBERED_VIEWER_TTL
"""Maximum age of facts, even if their versions match: after a fault, facts may have changed without a new version."""
TTL_SPREAD_SECONDS = 150
"""TTLs of users differ by up to this: facts that were read at the same time expire at different times."""
MAX_FIRST_PAGES = 2
"""First pages kept per viewer: the clients of one user may request pages of different sizes."""
VIEWER_BYTES, FOLLOW_BYTES, MARK_BYTES, BLOCKED_BYTES = 2_500, 250, 250, 100
"""Bytes of a viewer, and of each follow, mark and entry of `Viewer.blocked`. Measured with tracemalloc."""
ITEM_BYTES = 700
"""Bytes of an item on a page, with its rendered text, but without its burst, which other viewers share."""


@dataclass(slots=True, eq=False, kw_only=True)
class InboxAnswer:
    """A page and its badge, evaluated at one moment, with what is needed to check whether they are still current."""

    page: Page
    badge: Badge | None
    subject_cache_revision: int
    """Value of `SubjectCache.revision` at which the page was known to be current."""
    current_at: datetime
    """The page has everything that was announced before this time."""
    valid_until: datetime
    """Time until which only a write changes the page."""
    subjects: Collection[Subject] = ()
    """All subjects that the page depends on."""
    remembered_bytes: int = 0
    """Memory of the remembered page that became this answer; 0 if this process evaluated the page."""
    rendered: object = None
    """None, bytes that another process rendered, or the API's own rendering. Until the API renders this page, its own
    rendering is that of the viewer's previous page, whose parts it reuses."""

    def is_current(self, now: datetime, subject_cache_revision: int, change_times: ChangeTimes) -> bool:
        """Return whether an evaluation now would show the same page."""
        if not self.page.view.now <= now < self.valid_until:
            return False
        if self.subject_cache_revision != subject_cache_revision:
            if not change_times.are_unchanged_since_revision(self.subjects, self.subject_cache_revision):
                return False
            # The page is unchanged up to this revision: the next check is short.
            self.subject_cache_revision = subject_cache_revision
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class CachedViewer:
    """The facts of one viewer, and the first pages evaluated from them."""

    viewer: Viewer
    member: Member
    versions: Mapping[Scope, str]
    """Versions in Redis when the facts were read. If empty, later requests use the facts for partial pages only."""
    server_state: int
    """`VersionLookup.server_state` of the versions. Once Redis has another state, versions may be missing or old."""
    read_at: datetime
    """When the read of the facts began."""
    first_pages: dict[int, InboxAnswer] = field(default_factory=dict)
    """First pages by page size."""
    last_page: Page | None = None
    """Latest page put into `first_pages`, possibly with older facts. It is shown again while the store fails."""
    is_vip: bool = False
    remembered_page: RememberedPage | None = None
    """First page that another process evaluated from these facts. None after the first attempt to use it."""
    remembered_at: datetime | None = None
    """When the facts were last stored in Redis together with a page."""
    size: int = 0
    """Bytes that the cache counts for this viewer."""

    def is_proved_by(self, lookup: VersionLookup | None) -> bool:
        if lookup is None or not self.versions or lookup.server_state != self.server_state:
            return False
        return self.versions.items() <= lookup.versions.items()

    def pages_from(self, viewer: Viewer, member: Member) -> dict[int, InboxAnswer]:
        """Return the first pages that were evaluated from the given facts."""
        return {
            limit: answer
            for limit, answer in self.first_pages.items()
            if answer.page.view.viewer == viewer and answer.page.view.member == member
        }

    def put_first_page(self, limit: int, answer: InboxAnswer) -> None:
        self.first_pages.pop(limit, None)
        while len(self.first_pages) >= MAX_FIRST_PAGES:
            del self.first_pages[next(iter(self.first_pages))]
        self.first_pages[limit] = answer
        self.last_page = answer.page

    def memory_bytes(self) -> int:
        marks = self.viewer.marks
        items = sum(len(answer.page.items) for answer in self.first_pages.values())
        adopted_bytes = sum(answer.remembered_bytes for answer in self.first_pages.values())
        remembered_bytes = self.remembered_page.memory_bytes if self.remembered_page else 0
        return (
            VIEWER_BYTES
            + adopted_bytes
            + remembered_bytes
            + FOLLOW_BYTES * len(self.viewer.follows)
            + MARK_BYTES * (len(marks.by_burst) + len(marks.also_seen))
            + BLOCKED_BYTES * len(self.viewer.blocked)
            + ITEM_BYTES * items
        )


def facts_ttl(member: Member) -> timedelta:
    return FACTS_TTL - timedelta(seconds=member % TTL_SPREAD_SECONDS)


def viewer_scopes(member: Member) -> tuple[Scope, Scope]:
    """Return all scopes that a viewer's facts depend on."""
    return member_scope(member), ALL_MEMBERS


@dataclass(slots=True, kw_only=True)
class ViewerCache:
    """Cached viewers of one event loop. Above `max_bytes` the least recently used viewers are evicted."""

    max_bytes: int
    facts_stats: CacheCounters
    page_stats: CacheCounters
    remembered_stats: CacheCounters
    """Hits and misses of look-ups of facts that another process stored in Redis. Only VIPs' facts are stored there."""
    viewers: "OrderedDict[UserId, CachedViewer]" = field(default_factory=OrderedDict)
    size: int = 0
    """Bytes of all cached viewers."""
    distrust_count: int = 0
    """Number of calls of `distrust`."""
    trusted_since: datetime | None = None
    """Facts that another process read before this time are not used: they may have changed without a new version.

    None: no facts of another process are used.
    """
    _server_state: int | None = None

    def get(self, user: UserId) -> CachedViewer | None:
        cached = self.viewers.get(user)
        if cached is not None:
            self.viewers.move_to_end(user)
        return cached

    def put(self, cached: CachedViewer, distrust_count: int) -> None:
        """Cache facts. `distrust_count` is the cache's count from before the facts were read.

        If `distrust` was called since then, nothing can prove the facts current, and the versions are cleared.
        """
        if distrust_count != self.distrust_count:
            cached.versions = {}
        self.forget(cached.viewer.user)
        self.viewers[cached.viewer.user] = cached
        self.update_size(cached)

    def update_size(self, cached: CachedViewer) -> None:
        """Count the viewer's memory again, and evict other viewers if the cache is too large."""
        if self.viewers.get(cached.viewer.user) is not cached:
            return
        self.size -= cached.size
        cached.size = cached.memory_bytes()
        self.size += cached.size
        while self.size > self.max_bytes and len(self.viewers) > 1:
            _, evicted = self.viewers.popitem(last=False)
            self.size -= evicted.size

    def forget(self, user: UserId) -> None:
        if removed := self.viewers.pop(user, None):
            self.size -= removed.size

    def distrust(self, now: datetime) -> None:
        """Clear all versions. The cached facts then serve for partial pages only."""
        self.distrust_count += 1
        self.trusted_since = now
        for cached in self.viewers.values():
            cached.versions = {}

    def record_server_state(self, server_state: int, now: datetime) -> None:
        """Stop trusting facts that other processes read before, if the server state is new.

        In the new state versions may be missing or old.
        """
        if server_state != self._server_state:
            self._server_state = server_state
            self.trusted_since = now

    def trusts(self, remembered: RememberedViewer, now: datetime) -> bool:
        """Return whether facts of another process may be used here, if their versions prove them current.

        Since the facts were read, this process must have missed no invalidation, and Redis must have kept its state.
        """
        if self.trusted_since is None or remembered.read_at > now + MAX_CLOCK_SKEW:
            return False
        return remembered.read_at > self.trusted_since + MAX_CLOCK_SKEW

    def set_marks(self, user: UserId, marks: Marks) -> None:
        """Apply new marks at once, for partial pages while the store is down. Complete pages read the facts again."""
        if cached := self.viewers.get(user):
            cached.viewer = replace(cached.viewer, marks=marks)
            cached.versions = {}
