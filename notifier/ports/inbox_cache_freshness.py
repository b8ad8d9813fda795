"""Ports that keep caches of the read path current: burst change feed and viewer versions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NewType, Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Viewer
from notifier.ports.inbox import InboxPosition

MAX_CHANGED_BURSTS = 5_000
"""Maximum number of changed bursts in one answer. Reading more costs more than filling a cache again."""


class FeedPosition:
    """A position in the feed. Only valid for the store that returned it, and only in this process."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSince:
    bursts: Sequence[Burst]
    """Each changed burst once, with all changes since the position."""
    has_viewer_lapse: bool
    """Viewer facts changed without a notification, because their writer could not reach Redis."""
    position: FeedPosition


class BurstChanges(Protocol):
    """Change feed of recently written bursts. Asynchronous. Raises StoreUnavailable.

    `record_viewer_lapse` also raises DiskFull.

    `Bursts.write` adds each burst to the feed once the burst is readable, before the call returns. A write that raised
    may or may not be in the feed.
    """

    async def begin(self) -> FeedPosition:
        """Return the end of the feed. Only data that is read after this call returned may be cached.

        The first call of `after` may repeat bursts that were written up to a few seconds before `begin`.
        """
        ...

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        """Return the changes since the position.

        Each write that returned before this call began is in this answer or an earlier one, if the clocks differ by no
        more than MAX_CLOCK_SKEW. Return None if the answer could lack changes: the caller then clears its cache and
        begins again. After an error the position may be used again.
        """
        ...

    async def record_viewer_lapse(self) -> None:
        """Record that facts of viewers changed without notifying the caches. Durable on return; idempotent."""
        ...


# Viewer lapses: viewer facts changed and the read path's caches could not be notified.


class ViewerLapses(Protocol):
    """The blocking counterpart of `BurstChanges.record_viewer_lapse`, for the write path."""

    def record(self) -> None:
        """Record a lapse; every reader of the feed gets it.

        Durable on return; idempotent. Raises StoreUnavailable or DiskFull; then the lapse may or may not be recorded.
        """
        ...


# Viewer versions: a process uses them to check whether the inbox that it cached is still current.

Scope = NewType("Scope", str)
"""Name of facts that share one version: those of one member, or of all members."""

BurstStreamPosition = NewType("BurstStreamPosition", str)
"""Position of a reader in the stream of published bursts."""

PLACEHOLDER_TTL = timedelta(seconds=15)
"""Lifetime of a placeholder (see ViewerVersionWriter): longer than a write takes. Bulk writes renew theirs."""

VERSION_TTL = timedelta(hours=2)
"""Lifetime of a version. A reader that finds none reads the store again."""


ALL_MEMBERS = Scope("all")
"""Scope of the facts of all members. Imports, and changes of many members, invalidate it."""

MAX_SCOPES_PER_CHANGE = 500
"""Maximum number of member scopes that one change invalidates.

Larger changes are rare, and invalidate ALL_MEMBERS, which is cheaper.
"""


def member_scope(member: Member) -> Scope:
    return Scope(f"m{member}")


def scopes_of(members: Collection[Member]) -> Collection[Scope]:
    """Return the scopes to invalidate for a change of these members' facts."""
    return [member_scope(member) for member in members] if len(members) <= MAX_SCOPES_PER_CHANGE else [ALL_MEMBERS]


REMEMBERED_VIEWER_TTL = timedelta(minutes=5)
"""How long Redis keeps a VIP's facts. A process uses the facts in its own memory for this time at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedPage:
    """First inbox page of a remembered viewer, with its badge."""

    limit: int
    count: int
    """Number of items on the page."""
    bursts: bytes
    """The items' bursts, newest first, packed. A process that sends the rendered page does not need them."""
    newest: datetime | None
    """Opening time of the newest item."""
    next: InboxPosition | None
    """Position after which the next page starts; None if this is the last page."""
    unread: int
    """The badge: number of unread items, up to its limit."""
    more_unread: bool
    """There are more unread items than the badge counts."""
    current_at: datetime
    """Everything that was announced before this time is on the page, by the clock of the process that evaluated it."""
    valid_until: datetime
    """Time after which the page may change even without a write, for example because a burst expires."""
    rendered: bytes = b""
    """The page as the API rendered it."""
    renderer_id: bytes = b""
    """Identifies the software and the secret that made the rendered page."""

    @property
    def memory_bytes(self) -> int:
        """Return the memory that the page takes packed, unpacked and sent; the factor was measured with tracemalloc."""
        return 3 * (len(self.bursts) + len(self.rendered))


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedViewer:
    """Facts of a VIP that one process shares with others. Before using them, check that the versions are current."""

    viewer: Viewer
    member: Member
    versions: Mapping[Scope, str]
    """Versions under which the facts were read."""
    read_at: datetime
    """When the read began, by the clock of the reading process."""
    page: RememberedPage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLookup:
    """Answer to a lookup. Each part was read between the request and the answer."""

    versions: Mapping[Scope, str] = field(default_factory=dict)
    """Versions by scope. A scope that is missing has no version, or is changing."""
    changing: Collection[Scope] = ()
    """Scopes with a placeholder: facts read from them must not be cached."""
    published: Sequence[Burst] | None = None
    """Bursts published since the requested position, oldest first; None if some may be missing."""
    position: BurstStreamPosition | None = None
    """Position for the next lookup; None if the next lookup must start at the end of the stream."""
    remembered: Mapping[UserId, RememberedViewer] = field(default_factory=dict)
    """Remembered viewers among the requested users."""
    server_state: int = 0
    """Changes if the answer may come from another or a restarted server, which may lack versions, or have old ones."""


LOOKUP_SHARE = 3 / 4
"""Share of a page's deadline after which a lookup without an answer fails. The rest is for reading the store."""


class ViewerVersionWriter(Protocol):
    """Viewer versions for writers of viewer facts. Blocking. Raises CacheUnavailable.

    A writer calls `begin`, changes the store, then calls `finish`. In between, readers cache nothing of the scopes.
    After a crash in between, the placeholders expire. Versions may be lost at any time: readers then read the store.
    """

    def begin(self, scopes: Collection[Scope], change: str) -> None:
        """Replace the version of each scope by a placeholder. `change` is the unique name of this change."""
        ...

    def finish(self, scopes: Collection[Scope], change: str) -> None:
        """Remove the change's placeholders; the old versions do not come back. Idempotent."""
        ...


class ViewerVersionReader(Protocol):
    """Viewer versions for the read path, which also writes the changes that users make themselves. Asynchronous.

    Raises CacheUnavailable.

    Two lookups that return the same version prove that no change began between them. So facts that were read after
    the first lookup are still current at the second.
    """

    async def look_up(
        self, scopes: Collection[Scope], after: BurstStreamPosition | None, users: Collection[UserId] = ()
    ) -> VersionLookup:
        """Return versions, published bursts and remembered viewers.

        Without a position the lookup returns no bursts, and the position for the next one is the end of the stream.
        """
        ...

    async def insert_versions(self, scopes: Collection[Scope], version: str) -> VersionLookup:
        """Set a version for scopes without a version or placeholder; return the current versions, without bursts."""
        ...

    async def remember(self, viewer: RememberedViewer) -> None:
        """Store the facts for other processes for REMEMBERED_VIEWER_TTL."""
        ...

    async def begin(self, scopes: Collection[Scope], change: str) -> None: ...

    async def finish(self, scopes: Collection[Scope], change: str) -> None: ...
