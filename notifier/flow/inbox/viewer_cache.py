"""What is known of viewers: their facts, each with the version under which they were read, and their first pages."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import Badge, Page
from notifier.flow.inbox.subject_news import CLOCK_SKEW, ChangeTimes
from notifier.metrics import Hits
from notifier.ports.inbox_versions import (
    EVERYBODY,
    REMEMBERED_FOR,
    RememberedPage,
    RememberedViewer,
    Scope,
    VersionLook,
    member_scope,
)

FACTS_KEPT = REMEMBERED_FOR
"""Facts are read anew after so long, whatever their version says: the last resort against two faults at once."""
SPREAD = 150
"""Seconds over which the facts of users who came at once are read anew."""
PAGES_KEPT = 2
"""Openings per viewer: clients of one user may ask for pages of different sizes."""
VIEWER_BYTES, FOLLOW_BYTES, MARK_BYTES, ITEM_BYTES = 2_500, 250, 250, 700
"""Measured with tracemalloc. An item is shared with others as a burst; its rendered text is not."""


@dataclass(slots=True, eq=False, kw_only=True)
class CachedFirstPage:
    """A first page with its badge, as it was evaluated for one viewer."""

    page: Page
    badge: Badge | None
    turn: int
    """The subject cache's turn before the evaluation read anything."""
    current_at: datetime
    """Everything that was announced before is in it."""
    valid_until: datetime
    """From then on time alone may change it: something expires, or a digest falls due."""
    subjects: Collection[Subject] = ()
    """All that it depends on."""
    own_bytes: int = 0
    """Of what is shared with no other viewer, unlike the bursts that this process read."""
    rendered: object = None
    """What the API made of it, here or in another process, or of the opening before it."""

    def holds(self, now: datetime, turn: int, changes: ChangeTimes) -> bool:
        """Whether an evaluation at this moment would show the same."""
        if not self.page.look.now <= now < self.valid_until:
            return False
        if self.turn != turn:
            if not changes.unchanged(self.subjects, self.turn):
                return False
            self.turn = turn  # nothing of it has changed up to here: the next look is short
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class CachedViewer:
    viewer: Viewer
    member: Member
    versions: Mapping[Scope, str]
    """Under which the facts were read; empty where they may be used once and not be cached."""
    connection: int
    read_at: datetime
    """When the read began."""
    openings: dict[int, CachedFirstPage] = field(default_factory=dict)
    """By the size of the page."""
    last: Page | None = None
    """What the viewer was shown last, maybe by older facts."""
    vip: bool = False
    page: RememberedPage | None = None
    """What another process evaluated by these facts, until it is looked at."""
    remembered_at: datetime | None = None
    """When the facts were left in Redis last, with a page."""
    size: int = 0

    def proved_by(self, look: VersionLook | None) -> bool:
        """Whether the facts are still current by this look."""
        if look is None or not self.versions or look.connection != self.connection:
            return False
        return all(look.versions.get(scope) == version for scope, version in self.versions.items())

    def keep(self, limit: int, opening: CachedFirstPage) -> None:
        self.openings.pop(limit, None)
        while len(self.openings) >= PAGES_KEPT:
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


def kept_for(member: Member) -> timedelta:
    return FACTS_KEPT - timedelta(seconds=member % SPREAD)


def viewer_scopes(member: Member) -> tuple[Scope, Scope]:
    """All scopes that a viewer's facts depend on."""
    return member_scope(member), EVERYBODY


@dataclass(slots=True, kw_only=True)
class ViewerCache:
    """For one event loop. Bounded in bytes; the viewer who was away longest leaves first."""

    most_bytes: int
    hits: Hits
    page_hits: Hits
    remembered_hits: Hits
    """Of VIPs whose facts another process left in Redis."""
    viewers: "OrderedDict[UserId, CachedViewer]" = field(default_factory=OrderedDict)
    size: int = 0
    generation: int = 0
    """Rises when all facts read before are no longer trusted."""
    trusted_since: datetime | None = None
    """What other processes read before may be older than what this one was told. None before anything was told."""
    _connection: int | None = None

    def get(self, user: UserId) -> CachedViewer | None:
        found = self.viewers.get(user)
        if found is not None:
            self.viewers.move_to_end(user)
        return found

    def put(self, cached: CachedViewer, generation: int) -> None:
        """Keep the facts for others, unless the trust in them ended while they were read."""
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
        while self.size > self.most_bytes and len(self.viewers) > 1:
            _, gone = self.viewers.popitem(last=False)
            self.size -= gone.size

    def forget(self, user: UserId) -> None:
        if gone := self.viewers.pop(user, None):
            self.size -= gone.size

    def distrust(self, now: datetime) -> None:
        """Keep what is known for pages that are marked partial, and for nothing else."""
        self.generation += 1
        self.trusted_since = now
        for cached in self.viewers.values():
            cached.versions = {}

    def connected(self, connection: int, now: datetime) -> None:
        """The server behind a new connection may have lost versions: what was remembered before proves nothing."""
        if connection != self._connection:
            self._connection = connection
            self.trusted_since = now

    def trusts(self, remembered: RememberedViewer, now: datetime) -> bool:
        """Whether the versions of facts that another process read can prove anything here: since they were read, this
        process has heard of every lapse and has kept its connection."""
        if self.trusted_since is None or remembered.read_at > now + CLOCK_SKEW:
            return False
        return remembered.read_at > self.trusted_since + CLOCK_SKEW

    def remark(self, user: UserId, marks: Marks) -> None:
        """What was marked here is not shown as it was before, also while the store is away."""
        if cached := self.viewers.get(user):
            cached.viewer = replace(cached.viewer, marks=marks)
            cached.versions = {}
