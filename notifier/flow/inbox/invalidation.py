"""Invalidate cached facts of viewers around each write, and verify caches before each read.

The order of steps makes the caches safe against crashes. `begin` comes before the write and sets a mark in Redis:
nothing that is read while a mark stands is cached. `finish` comes after the write is durable and removes the mark. A
writer that dies in between leaves its mark, which expires. If Redis cannot be notified, a lapse is recorded in the
store's change feed after the write. Every process that reads the lapse drops the facts that it cached.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

from notifier.domain.errors import CacheUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.change_follower import ChangeFollower
from notifier.flow.inbox.store_breaker import Timer
from notifier.metrics import Metrics
from notifier.ports.coordination import Nonces
from notifier.ports.inbox_versions import (
    ALL_MEMBERS,
    BurstChanges,
    BurstStreamPosition,
    Scope,
    VersionLookup,
    ViewerLapses,
    ViewerVersionReader,
    ViewerVersionWriter,
)

T = TypeVar("T")

ROWS_PER_RENEWAL = 2_000
"""Rows of a bulk write between two renewals of its mark: one second of work, while a mark lasts fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """A write in progress, with the scopes whose cached facts it changes."""

    versions: ViewerVersionWriter
    scopes: Collection[Scope]
    name: str
    """Unique name of the change, which tells its mark from those of other writers."""

    def begin(self) -> bool:
        """Mark the scopes as changing. Return whether Redis accepted the mark."""
        try:
            self.versions.begin(self.scopes, self.name)
        except CacheUnavailable:
            return False
        return True

    def finish(self) -> bool:
        """Remove the mark. Return whether Redis accepted the removal."""
        try:
            self.versions.finish(self.scopes, self.name)
        except CacheUnavailable:
            return False
        return True

    def with_renewals(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield the rows of a bulk write, and renew the mark meanwhile: the write may take longer than a mark lasts."""
        iterator = iter(rows)
        while chunk := list(islice(iterator, ROWS_PER_RENEWAL)):
            self.begin()
            yield from chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidation:
    """Synchronous invalidation for the write path."""

    versions: ViewerVersionWriter
    lapses: ViewerLapses
    nonces: Nonces

    @contextmanager
    def changing(self, scopes: Collection[Scope]) -> Iterator[PendingChange]:
        """Wrap a write.

        An error leaves the mark: the write may still take effect, so nothing is cached until the mark expires. Raises
        StoreUnavailable if neither Redis nor the store can be notified; the caller then repeats the write.
        """
        change = PendingChange(versions=self.versions, scopes=scopes, name=self.nonces.new())
        if not scopes:
            yield change
            return
        marked = change.begin()
        try:
            yield change
        except BaseException:
            if not marked:  # there is no mark, and the write may still take effect
                with suppress(StoreUnavailable):
                    self.lapses.record()
            raise
        if not (marked and change.finish()):
            self.lapses.record()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncInvalidation:
    """Asynchronous invalidation for what users change themselves. Works like `Invalidation`."""

    versions: ViewerVersionReader
    changes: BurstChanges
    nonces: Nonces

    @asynccontextmanager
    async def changing(self, scopes: Collection[Scope]) -> AsyncIterator[None]:
        change = self.nonces.new()
        marked = await self._begin(scopes, change)
        try:
            yield
        except BaseException:
            if not marked:  # there is no mark, and the write may still take effect
                with suppress(StoreUnavailable):
                    await self.changes.record_viewer_lapse()
            raise
        if not (marked and await self._finish(scopes, change)):
            await self.changes.record_viewer_lapse()

    async def _begin(self, scopes: Collection[Scope], change: str) -> bool:
        try:
            await self.versions.begin(scopes, change)
        except CacheUnavailable:
            return False
        return True

    async def _finish(self, scopes: Collection[Scope], change: str) -> bool:
        try:
            await self.versions.finish(scopes, change)
        except CacheUnavailable:
            return False
        return True


# Look-ups: verify for many requests at once that cached data is current.

LOGGER = logging.getLogger("notifier.inbox")


class VersionLookups(Protocol):
    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        """Update the subject cache, then return the current versions and what Redis remembers of the users.

        Returns None without Redis. Raises StoreUnavailable if the store had to be read and did not answer. A caller
        that passes `may_wait=False` has a fallback to show, and gets this error within the deadline of a page.
        """
        ...


@dataclass(slots=True, kw_only=True)
class VersionCheck:
    """One look-up per call. Afterwards the caches have everything that was durable and announced before the call."""

    versions: ViewerVersionReader
    follower: ChangeFollower
    metrics: Metrics
    position: BurstStreamPosition | None = None
    """Position in the burst stream up to which the caches have all bursts. None if bursts may have been missed."""

    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        after, self.position = self.position, None
        try:
            with self.metrics.inbox_redis():
                lookup = await self.versions.look_up({*scopes, ALL_MEMBERS}, after, users)
        except CacheUnavailable:  # fails over to the store's feed, which is as complete as Redis but slower
            self.metrics.outages.labels("cache").inc()
            await self.follower.catch_up()
            return None
        if after is None or lookup.published is None:
            await self.follower.catch_up()
            # Only after catching up: until then the caches may lack bursts that the store has.
            self.position = lookup.position
        else:
            for burst in lookup.published:
                self.follower.subjects.apply_published(burst)
            # Even if the store fails next: these bursts are applied, and partial pages use them.
            self.position = lookup.position
            await self.follower.keep_up()
        self.follower.viewers.record_connection(lookup.connection, self.follower.clock.now())
        return lookup


PendingLookup = asyncio.Future[VersionLookup | None]


@dataclass(slots=True, kw_only=True)
class SharedVersionLookups:
    """One instance per event loop. One look-up runs at a time; requests that arrive meanwhile share the next one."""

    lookups: VersionLookups
    max_wait: timedelta
    """Time after which callers with `may_wait=False` get StoreUnavailable."""
    _scopes: set[Scope] = field(default_factory=set)
    _users: set[UserId] = field(default_factory=set)
    _queued: list[PendingLookup] = field(default_factory=list)
    _running: "asyncio.Task[None] | None" = None

    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        pending: PendingLookup = asyncio.get_running_loop().create_future()
        self._scopes.update(scopes)
        self._users.update(users)
        self._queued.append(pending)
        timer = None if may_wait else Timer.start(self.max_wait, partial(_time_out, pending))
        if self._running is None:
            # The task starts only after all requests of this loop iteration are queued.
            self._running = asyncio.ensure_future(self._run())
        try:
            return await pending
        finally:
            if timer is not None:
                timer.cancel()
            del pending, timer  # breaks a cycle: the error keeps this frame, and the future keeps the error

    async def _run(self) -> None:
        try:
            while self._queued:
                await self._look_up_queued()
        finally:
            self._running = None

    async def _look_up_queued(self) -> None:
        waiting, self._queued = self._queued, []
        scopes, self._scopes = self._scopes, set()
        users, self._users = self._users, set()
        try:
            lookup = await self.lookups.look_up(scopes, may_wait=True, users=users)
        except NotifierError as error:
            _fail(waiting, error)
        except Exception:  # requests that wait for the next look-up must still get it
            LOGGER.exception("inbox look-up failed")
            _fail(waiting, StoreUnavailable("The look-up failed."))
        except BaseException:
            _fail([*waiting, *self._queued], StoreUnavailable("The look-up was stopped."))
            raise
        else:
            for pending in waiting:
                if not pending.done():
                    pending.set_result(lookup)
        finally:
            waiting.clear()  # breaks a cycle: the error keeps this frame, and the futures keep the error


def _time_out(pending: PendingLookup) -> None:
    _fail([pending], StoreUnavailable("The store is slow."))


def _fail(waiting: Collection[PendingLookup], error: Exception) -> None:
    for pending in waiting:
        if not pending.done():
            pending.set_exception(error)
