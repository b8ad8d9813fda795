"""In-memory change feed of bursts, lapses of viewers, and viewer versions."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.inbox_cache_freshness import (
    MAX_CHANGED_BURSTS,
    PLACEHOLDER_TTL,
    REMEMBERED_VIEWER_TTL,
    BurstStreamPosition,
    ChangesSince,
    FeedPosition,
    RememberedViewer,
    Scope,
    VersionLookup,
)
from notifier.ports.leases_queues_throttles_clock import Clock
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.live_bus import MemoryLiveBus


@dataclass(frozen=True, slots=True)
class MemoryPosition(FeedPosition):
    count: int
    """Number of changes until then."""


class MemoryBurstChanges:
    """Change feed. Its coroutines never suspend, so the simulator can step them."""

    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts

    async def begin(self) -> FeedPosition:
        return MemoryPosition(len(self._bursts.changes))

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        if not isinstance(position, MemoryPosition):
            raise TypeError(f"not a position in memory: {position!r}")
        end = len(self._bursts.changes)
        entries = self._bursts.changes[position.count : end]
        changed = _by_last(key for key in entries if key is not None)
        if len(changed) > MAX_CHANGED_BURSTS:
            return None
        current = self._bursts.read(changed)
        return ChangesSince(
            bursts=[current[key] for key in changed], has_viewer_lapse=None in entries, position=MemoryPosition(end)
        )

    async def record_viewer_lapse(self) -> None:
        self._bursts.changes.append(None)


class MemoryViewerLapses:
    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts

    def record(self) -> None:
        self._bursts.changes.append(None)


def _by_last(keys: Iterable[BurstKey]) -> list[BurstKey]:
    """Return each key once, ordered by its last entry."""
    last = {key: n for n, key in enumerate(keys)}
    return sorted(last, key=last.__getitem__)


# Versions of viewers' facts: one cache with a side for writers and a side for readers, which can be wiped.


@dataclass(slots=True, kw_only=True)
class _Entry:
    version: str = ""
    changes: dict[str, datetime] = field(default_factory=dict)
    """When each change in progress expires, by name."""


@dataclass(slots=True, kw_only=True)
class MemoryVersions:
    clock: Clock
    bus: MemoryLiveBus
    entries: dict[Scope, _Entry] = field(default_factory=dict)
    viewers: dict[UserId, RememberedViewer] = field(default_factory=dict)
    server_state: int = 1
    away: bool = False
    _life: int = 0
    """Number of wipes: positions from before the last one are invalid."""
    _from: int = 0

    def wipe(self) -> None:
        self.entries.clear()
        self.viewers.clear()
        self._life += 1
        self._from = len(self.bus.stream)

    def start_change(self, scopes: Collection[Scope], change: str) -> None:
        self._require()
        until = self.clock.now() + PLACEHOLDER_TTL
        for scope in scopes:
            entry = self._entry(scope)
            entry.version = ""
            entry.changes = dict.fromkeys([*entry.changes, change], until)
            self.entries[scope] = entry

    def end_change(self, scopes: Collection[Scope], change: str) -> None:
        self._require()
        for scope in scopes:
            entry = self._entry(scope)
            entry.version = ""
            entry.changes.pop(change, None)
            if not entry.changes:
                self.entries.pop(scope, None)

    def read(self, scopes: Collection[Scope]) -> VersionLookup:
        self._require()
        entries = {scope: self._entry(scope) for scope in scopes}
        return VersionLookup(
            versions={scope: entry.version for scope, entry in entries.items() if entry.version},
            changing={scope for scope, entry in entries.items() if entry.changes},
            server_state=self.server_state,
        )

    def published(self, after: BurstStreamPosition | None) -> tuple[list[Burst] | None, BurstStreamPosition]:
        position = BurstStreamPosition(f"{self._life}-{len(self.bus.stream)}")
        if after is None:
            return [], position
        life, _, at = after.partition("-")
        items = self.bus.stream[int(at) :]
        bursts = [item for item in items if isinstance(item, Burst)]
        whole = int(life) == self._life and int(at) >= self._from and len(bursts) == len(items)
        return (bursts if whole else None), position

    def set_version(self, scope: Scope, version: str) -> None:
        entry = self._entry(scope)
        if not (entry.version or entry.changes):
            self.entries[scope] = _Entry(version=version)

    def remember(self, viewer: RememberedViewer) -> None:
        self._require()
        self.viewers[viewer.viewer.user] = viewer

    def recall(self, user: UserId) -> RememberedViewer | None:
        viewer = self.viewers.get(user)
        return viewer if viewer and self.clock.now() < viewer.read_at + REMEMBERED_VIEWER_TTL else None

    def _entry(self, scope: Scope) -> _Entry:
        entry = self.entries.get(scope, _Entry())
        if entry.changes and min(entry.changes.values()) <= self.clock.now():
            # As in Redis, the key expires as a whole, counted from the last change that began.
            self.entries.pop(scope, None)
            return _Entry()
        return entry

    def _require(self) -> None:
        if self.away:
            raise CacheUnavailable("It is away.")


@dataclass(frozen=True, slots=True)
class MemoryViewerVersionWriter:
    """The side for writers."""

    shared: MemoryVersions

    def begin(self, scopes: Collection[Scope], change: str) -> None:
        self.shared.start_change(scopes, change)

    def finish(self, scopes: Collection[Scope], change: str) -> None:
        self.shared.end_change(scopes, change)


@dataclass(frozen=True, slots=True)
class MemoryViewerVersionReader:
    """The side for readers."""

    shared: MemoryVersions

    async def look_up(
        self, scopes: Collection[Scope], after: BurstStreamPosition | None, users: Collection[UserId] = ()
    ) -> VersionLookup:
        versions = self.shared.read(scopes)
        bursts, position = self.shared.published(after)
        return VersionLookup(
            versions=versions.versions,
            changing=versions.changing,
            published=bursts,
            position=position,
            remembered={user: viewer for user in users if (viewer := self.shared.recall(user))},
            server_state=versions.server_state,
        )

    async def remember(self, viewer: RememberedViewer) -> None:
        self.shared.remember(viewer)

    async def insert_versions(self, scopes: Collection[Scope], version: str) -> VersionLookup:
        for scope in scopes:
            self.shared.set_version(scope, version)
        return self.shared.read(scopes)

    async def begin(self, scopes: Collection[Scope], change: str) -> None:
        self.shared.start_change(scopes, change)

    async def finish(self, scopes: Collection[Scope], change: str) -> None:
        self.shared.end_change(scopes, change)
