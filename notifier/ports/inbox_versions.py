"""The change feed of bursts: how a cache of the read path follows what the store holds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NewType, Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Viewer
from notifier.ports.inbox import InboxPosition

MOST = 5_000
"""Changed bursts in one answer. Reading more of them costs more than to fill a cache again."""
CLOCKS_DIFFER = timedelta(seconds=3)
"""How far the clock of a writer may be from the clock of a follower, in either direction."""


class Position:
    """A place in the feed. It means something only to the store that returned it, and only in this process."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSince:
    bursts: Sequence[Burst]
    """Each changed burst once, as it is now or newer; the burst that changed last is the last."""
    viewers_lapsed: bool
    """Facts of viewers changed, and the process that changed them could not tell the caches."""
    position: Position
    """Where the next call goes on."""


class BurstChanges(Protocol):
    """The bursts that were written lately.

    `Bursts.write` puts each burst that it writes into the feed, after the burst is readable and before it returns. A
    write that raised may be in the feed or not. Asynchronous. Raises StoreUnavailable, and `lapse` also Full.
    """

    async def begin(self) -> Position:
        """Return the end of the feed. Everything that is cached must have been read after this call returned.

        The first call of `after` may repeat bursts that were written up to a few seconds before.
        """
        ...

    async def after(self, position: Position) -> ChangesSince | None:
        """Return what changed since the position.

        Each write that returned before this call began is in this answer or was in an earlier one, provided that the
        clocks differ by no more than CLOCKS_DIFFER. None when the position is too old or more than MOST bursts changed:
        then the caller forgets what it cached and begins again. The same position may be given again after an error.
        """
        ...

    async def lapse(self) -> None:
        """Record that facts of viewers changed and the caches were not told. Durable when it returns; idempotent."""
        ...


# Lapses: facts of viewers that changed while the caches of the read path could not be told.


class ViewerLapses(Protocol):
    """The synchronous side of `BurstChanges.lapse`, for the write path."""

    def record(self) -> None:
        """Every follower of the feed hears of the lapse with its next call of `after`.

        Durable when it returns; idempotent. Raises StoreUnavailable or Full: then it may be recorded or not.
        """
        ...


# Versions by which a process knows whether the inbox that it cached is still current.

Scope = NewType("Scope", str)
"""What shares one version: the facts of one member, or those of everybody."""

NewsPosition = NewType("NewsPosition", str)
"""How far a reader has followed the news."""

CHANGE_LASTS = timedelta(seconds=15)
"""A change that its writer never finishes (it died) counts as unfinished for so long: no write takes longer."""

VERSION_KEPT = timedelta(hours=2)
"""An unused version is forgotten; the next reader reads the store once more."""


EVERYBODY = Scope("all")
"""Changes with every bulk write: of block rows, which are many members' at once, and of imports."""

MOST_SCOPES = 500
"""Members in one change. More are a change of everybody: cheaper than to mark each, and rare."""


def member_scope(member: Member) -> Scope:
    return Scope(f"m{member}")


def scopes_of(members: Collection[Member]) -> Collection[Scope]:
    """What a change of these members' facts has to mark."""
    return [member_scope(member) for member in members] if len(members) <= MOST_SCOPES else [EVERYBODY]


REMEMBERED_FOR = timedelta(minutes=5)
"""How long the facts of a VIP stay in Redis: as long as a process trusts facts in its own memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedPage:
    """A first page that another process evaluated by these facts, with its badge."""

    limit: int
    count: int
    """Items on the page."""
    bursts: bytes
    """Of the items, newest first, packed: a process that sends the page as it is rendered needs none of them."""
    newest: datetime | None
    """When the latest of them was opened."""
    next: InboxPosition | None
    unread: int
    more_unread: bool
    current_at: datetime
    """Everything that was announced before is in it, and everything durable half a second before; by the clock of the
    process that evaluated it."""
    valid_until: datetime
    """From then on time alone may change it."""
    rendered: bytes = b""
    """What the API made of it."""
    maker: bytes = b""
    """Names the software and the secret by which it was made."""

    @property
    def own_bytes(self) -> int:
        """Of the memory that it takes, packed, unpacked and sent; measured with tracemalloc."""
        return 3 * (len(self.bursts) + len(self.rendered))


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedViewer:
    """A VIP's facts that another process read. Whoever finds them must look whether the versions still stand."""

    viewer: Viewer
    member: Member
    versions: Mapping[Scope, str]
    """Under which the facts were read."""
    read_at: datetime
    """When the read began, by the clock of the process that read."""
    page: RememberedPage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLook:
    """The answer to one look-up, true at one moment after it was sent."""

    versions: Mapping[Scope, str] = field(default_factory=dict)
    """Scopes that have a version and are not being changed. A missing scope has no version that can be compared."""
    changing: Collection[Scope] = ()
    """Scopes that a writer is changing now: what is read of them may be cached by nobody."""
    news: Sequence[Burst] | None = None
    """Bursts published since the position that was asked for, oldest first; None where some may be missing."""
    position: NewsPosition | None = None
    """Pass it to the next look-up. None: the news could not be read."""
    remembered: Mapping[UserId, RememberedViewer] = field(default_factory=dict)
    """Of the users asked for, those of whom anything is remembered."""
    connection: int = 0
    """Changes when the connection was made anew: the server behind it may have lost versions that were set before."""


LOOK_WITHIN = timedelta(milliseconds=150)
"""How long a look-up may take. Without an answer the store is read: a page has a deadline, and this is its share."""


class ViewerVersions(Protocol):
    """The writers' side, synchronous. Disposable: raises CacheUnavailable, and may lose everything at any moment.

    A writer calls `begin`, changes the store, then calls `finish`. Between the two nobody caches the scopes. A crash in
    between leaves them uncached for CHANGE_LASTS.
    """

    def begin(self, scopes: Collection[Scope], change: str) -> None:
        """Mark the scopes as changing. `change` names this change; no other change has the same name."""
        ...

    def finish(self, scopes: Collection[Scope], change: str) -> None:
        """Remove the mark of this change; the old version does not come back. Idempotent."""
        ...


class InboxVersions(Protocol):
    """The readers' side, asynchronous, and the writers' calls for what users change themselves.

    Raises CacheUnavailable.

    A version says nothing about what the facts are. It proves that no change began between two look-ups that return
    the same version. So facts that were read after the first of them are still current at the second.
    """

    async def look(
        self, scopes: Collection[Scope], after: NewsPosition | None, users: Collection[UserId] = ()
    ) -> VersionLook:
        """Return the versions, the news and what is remembered of the users in one round trip. Without a position the
        news begin now."""
        ...

    async def plant(self, scopes: Collection[Scope], version: str) -> VersionLook:
        """Give a version to those scopes that have none, and return the versions that they have now, without news."""
        ...

    async def remember(self, viewer: RememberedViewer) -> None:
        """Keep the facts for other processes for REMEMBERED_FOR."""
        ...

    async def begin(self, scopes: Collection[Scope], change: str) -> None: ...

    async def finish(self, scopes: Collection[Scope], change: str) -> None: ...
