"""Per-process cache of viewers' facts, the versions they were read under, and first pages."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import Badge, Page
from notifier.flow.inbox.subject_positions import CLOCK_SKEW, ChangeTimes
from notifier.metrics import CacheHits
from notifier.ports.inbox_versions import (
    ALL_MEMBERS,
    REMEMBERED_TTL,
    RememberedPage,
    RememberedViewer,
    Scope,
    VersionLookup,
    member_scope,
)

FACTS_TTL = REMEMBERED_TTL
"""Facts are read again after this time, whatever their version: the last resort against two simultaneous faults."""
TTL_SPREAD_SECONDS = 150
"""Seconds over which the facts of users who arrived together are read again."""
MAX_OPENINGS = 2
"""Openings per viewer: the clients of one user may request pages of different sizes."""
VIEWER_BYTES, FOLLOW_BYTES, MARK_BYTES, ITEM_BYTES = 2_500, 250, 250, 700
"""Measured with tracemalloc. An item's burst is shared with other viewers; its rendered text is not."""


@dataclass(slots=True, eq=False, kw_only=True)
class CachedFirstPage:
    """A first page with its badge, evaluated for one viewer."""

    page: Page
    badge: Badge | None
    revision: int
    """Turn of the subject cache before the evaluation read anything."""
    current_at: datetime
    """The page has everything that was announced before this time."""
    valid_until: datetime
    """Time at which the page may change without any write: an entry expires, or a digest falls due."""
    subjects: Collection[Subject] = ()
    """All subjects that the page depends on."""
    own_bytes: int = 0
    """Bytes that are shared with no other viewer, unlike the bursts that this process read."""
    rendered: object = None
    """The API's rendering of this opening or of the one before it, made by this process or another one."""

    def is_current(self, now: datetime, revision: int, changes: ChangeTimes) -> bool:
        """Return whether an evaluation at this moment would show the same."""
        if not self.page.view.now <= now < self.valid_until:
            return False
        if self.revision != revision:
            if not changes.unchanged(self.subjects, self.revision):
                return False
            self.revision = revision  # unchanged up to this turn: the next check is short
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class CachedViewer:
    viewer: Viewer
    member: Member
    versions: Mapping[Scope, str]
    """Versions under which the facts were read. Empty if the facts may be used once and not be cached."""
    connection: int
    read_at: datetime
    """When the read of the facts began."""
    openings: dict[int, CachedFirstPage] = field(default_factory=dict)
    """First pages by page size."""
    last: Page | None = None
    """The page last shown to the viewer, possibly from older facts."""
    vip: bool = False
    page: RememberedPage | None = None
    """First page that another process evaluated from these facts. Set to None by the first attempt to use it."""
    remembered_at: datetime | None = None
    """When the facts were last stored in Redis together with a page."""
    size: int = 0

    def is_proved_by(self, lookup: VersionLookup | None) -> bool:
        """Return whether the look-up proves that the facts are current."""
        if lookup is None or not self.versions or lookup.connection != self.connection:
            return False
        return all(lookup.versions.get(scope) == version for scope, version in self.versions.items())

    def put_opening(self, limit: int, opening: CachedFirstPage) -> None:
        self.openings.pop(limit, None)
        while len(self.openings) >= MAX_OPENINGS:
            del self.openings[next(iter(self.openings))]
        self.openings[limit] = opening
        self.last = opening.page

    def measured(self) -> int:
        marks = self.viewer.marks
        items = sum(len(opening.page.items) for opening in self.openings.values())
        own = sum(opening.own_bytes for opening in self.openings.values()) + (self.page.own_bytes if self.page else 0)
        return (
            VIEWER_BYTES
            + own
            + FOLLOW_BYTES * len(self.viewer.follows)
            + MARK_BYTES * (len(marks.by_burst) + len(marks.also_seen))
            + 100 * len(self.viewer.blocked)
            + ITEM_BYTES * items
        )


def facts_ttl(member: Member) -> timedelta:
    return FACTS_TTL - timedelta(seconds=member % TTL_SPREAD_SECONDS)


def viewer_scopes(member: Member) -> tuple[Scope, Scope]:
    """Return all scopes that a viewer's facts depend on."""
    return member_scope(member), ALL_MEMBERS


@dataclass(slots=True, kw_only=True)
class ViewerCache:
    """One instance per event loop. Bounded in bytes; the least recently used viewer is evicted first."""

    max_bytes: int
    hits: CacheHits
    page_hits: CacheHits
    remembered_hits: CacheHits
    """Hits and misses of VIPs' facts that another process stored in Redis."""
    viewers: "OrderedDict[UserId, CachedViewer]" = field(default_factory=OrderedDict)
    size: int = 0
    generation: int = 0
    """Increases when all facts read before are no longer trusted."""
    trusted_since: datetime | None = None
    """Facts that other processes read before this time may predate changes that this process was notified of. None
    until this process is connected or follows changes."""
    _connection: int | None = None

    def get(self, user: UserId) -> CachedViewer | None:
        cached = self.viewers.get(user)
        if cached is not None:
            self.viewers.move_to_end(user)
        return cached

    def put(self, cached: CachedViewer, generation: int) -> None:
        """Cache the facts.

        If the trust in them ended while they were read, clear their versions, so they prove nothing.
        """
        if generation != self.generation:
            cached.versions = {}
        self.forget(cached.viewer.user)
        self.viewers[cached.viewer.user] = cached
        self.measure(cached)

    def measure(self, cached: CachedViewer) -> None:
        if self.viewers.get(cached.viewer.user) is not cached:
            return
        self.size -= cached.size
        cached.size = cached.measured()
        self.size += cached.size
        while self.size > self.max_bytes and len(self.viewers) > 1:
            _, evicted = self.viewers.popitem(last=False)
            self.size -= evicted.size

    def forget(self, user: UserId) -> None:
        if removed := self.viewers.pop(user, None):
            self.size -= removed.size

    def distrust(self, now: datetime) -> None:
        """Clear all versions: the cached facts then serve partial pages and nothing else."""
        self.generation += 1
        self.trusted_since = now
        for cached in self.viewers.values():
            cached.versions = {}

    def record_connection(self, connection: int, now: datetime) -> None:
        """Record the connection. A new server may have lost versions, so facts stored before prove nothing."""
        if connection != self._connection:
            self._connection = connection
            self.trusted_since = now

    def trusts(self, remembered: RememberedViewer, now: datetime) -> bool:
        """Return whether the versions of facts that another process read can prove anything here.

        Since the facts were read, this process must have received every lapse and kept its connection.
        """
        if self.trusted_since is None or remembered.read_at > now + CLOCK_SKEW:
            return False
        return remembered.read_at > self.trusted_since + CLOCK_SKEW

    def set_marks(self, user: UserId, marks: Marks) -> None:
        """Apply the new marks at once: the old marks are not shown again, even while the store is down."""
        if cached := self.viewers.get(user):
            cached.viewer = replace(cached.viewer, marks=marks)
            cached.versions = {}
