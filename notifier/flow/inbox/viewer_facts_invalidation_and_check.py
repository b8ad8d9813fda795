"""Invalidate cached viewer facts around writes, and verify them before reads.

Before the write, `begin` replaces the versions of the changed scopes in Redis by a placeholder. Facts of a scope with a
placeholder are never proved current. After the write is durable, `finish` removes the placeholder. If the writer dies
in between, the placeholder expires.

If Redis does not answer, the writer records a lapse in the store's change feed after the write. A process that reads
the lapse distrusts the facts that it has cached.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Protocol, TypeVar

from notifier.concurrency_and_time_limits import RepeatingTimer
from notifier.domain.errors import OUTAGES, CacheUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.change_feed_follower import ChangeFollower
from notifier.metrics import Metrics
from notifier.ports.inbox_cache_freshness import (
    ALL_MEMBERS,
    BurstChanges,
    BurstStreamPosition,
    Scope,
    VersionLookup,
    ViewerLapses,
    ViewerVersionReader,
    ViewerVersionWriter,
)
from notifier.ports.leases_queues_throttles_clock import Nonces

T = TypeVar("T")

ROWS_PER_RENEWAL = 2_000
"""Rows of a bulk write between two renewals of its placeholder: a second of work. A placeholder lasts 15 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """A write in progress, with the scopes whose cached facts it changes."""

    versions: ViewerVersionWriter
    scopes: Collection[Scope]
    name: str
    """Unique name of the change, which Redis holds as placeholder."""

    def begin(self) -> bool:
        """Write the placeholders; return whether Redis has confirmed them."""
        try:
            self.versions.begin(self.scopes, self.name)
        except CacheUnavailable:
            return False
        return True

    def finish(self) -> bool:
        try:
            self.versions.finish(self.scopes, self.name)
        except CacheUnavailable:
            return False
        return True

    def with_renewals(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield the rows of a bulk write. Renew the placeholders meanwhile, because a long write outlasts them."""
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
        """Return a context manager for a write that changes facts of these scopes.

        If the write fails, the placeholders stay until they expire, because the write may still take effect. Raises
        StoreUnavailable or DiskFull if neither Redis nor the change feed can be written. The caller must then repeat
        the write.
        """
        change = PendingChange(versions=self.versions, scopes=scopes, name=self.nonces.new())
        if not scopes:
            yield change
            return
        has_placeholders = change.begin()
        try:
            yield change
        except BaseException:
            if not has_placeholders:  # the write may still take effect, and nothing in Redis shows it
                with suppress(*OUTAGES):  # the caller must get the error of its write
                    self.lapses.record()
            raise
        if not (has_placeholders and change.finish()):
            self.lapses.record()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncInvalidation:
    """Asynchronous counterpart of `Invalidation`, for what users change themselves."""

    versions: ViewerVersionReader
    changes: BurstChanges
    nonces: Nonces

    @asynccontextmanager
    async def changing(self, scopes: Collection[Scope]) -> AsyncIterator[None]:
        change = self.nonces.new()
        has_placeholders = await self._begin(scopes, change)
        try:
            yield
        except BaseException:
            if not has_placeholders:  # the write may still take effect, and nothing in Redis shows it
                with suppress(*OUTAGES):  # the caller must get the error of its write
                    await self.changes.record_viewer_lapse()
            raise
        if not (has_placeholders and await self._finish(scopes, change)):
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


# Look-ups: verify that cached data is current.

LOGGER = logging.getLogger("notifier.inbox")


class VersionLookups(Protocol):
    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        """Apply new changes to the caches. Then return current versions, and the remembered viewers among the users.

        Returns None if Redis does not answer. Raises StoreUnavailable if the store had to be read and did not answer.
        With `may_wait=False`, for callers with a fallback page, it may raise StoreUnavailable early.
        """
        ...


@dataclass(slots=True, kw_only=True)
class VersionCheck:
    """Sends one look-up per call. Then the subject cache has all bursts that were announced before the call."""

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
        except CacheUnavailable:  # fails over to the store's change feed, which is as complete as Redis but slower
            self.metrics.outages.labels("cache").inc()
            await self.follower.catch_up()
            return None
        if after is None or lookup.published is None:
            await self.follower.catch_up()
            # Set the position only after catching up: before that the subject cache may lack bursts.
            self.position = lookup.position
        else:
            for burst in lookup.published:
                self.follower.subject_cache.apply_published(burst)
            # Set the position before reading the feed, which may fail.
            self.position = lookup.position
            await self.follower.keep_up()
        self.follower.viewers.record_server_state(lookup.server_state, self.follower.clock.now())
        return lookup


PendingLookup = asyncio.Future[VersionLookup | None]
CHECKS_PER_WAIT = 4
"""How often per `max_wait` the callers that have waited too long are rejected."""


@dataclass(slots=True, kw_only=True)
class SharedVersionLookups:
    """Runs one look-up at a time. Callers that arrive meanwhile share the next one. One instance per event loop."""

    lookups: VersionLookups
    max_wait: timedelta
    """A caller with `may_wait=False` that has waited longer than this gets StoreUnavailable."""
    _scopes: set[Scope] = field(default_factory=set)
    _users: set[UserId] = field(default_factory=set)
    _queued: list[PendingLookup] = field(default_factory=list)
    _impatient: list[tuple[float, PendingLookup]] = field(default_factory=list)
    """Waiting callers with `may_wait=False`, and the time of the event loop at which each came."""
    _running: "asyncio.Task[None] | None" = None

    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        loop = asyncio.get_running_loop()
        pending: PendingLookup = loop.create_future()
        self._scopes.update(scopes)
        self._users.update(users)
        self._queued.append(pending)
        if not may_wait:
            self._impatient.append((loop.time(), pending))
        if self._running is None:
            # The task starts in the next iteration of the event loop, so requests of this iteration share a look-up.
            self._running = asyncio.ensure_future(self._run())
        try:
            return await pending
        finally:
            del pending  # breaks a cycle: the error keeps this frame, and the future keeps the error

    async def _run(self) -> None:
        # One timer for all callers: a timer for each of them would cost more than its share of the look-up.
        timer = RepeatingTimer(self.max_wait / CHECKS_PER_WAIT, self._reject_impatient)
        try:
            while self._queued:
                await self._look_up_queued()
        finally:
            timer.cancel()
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
            self._forget_answered()
            waiting.clear()  # breaks a cycle: the error keeps this frame, and the futures keep the error

    def _reject_impatient(self) -> None:
        latest = asyncio.get_running_loop().time() - self.max_wait.total_seconds()
        _fail(
            [pending for came_at, pending in self._impatient if came_at <= latest],
            StoreUnavailable("The store is slow."),
        )
        self._forget_answered()

    def _forget_answered(self) -> None:
        self._impatient = [(came_at, pending) for came_at, pending in self._impatient if not pending.done()]


def _fail(waiting: Collection[PendingLookup], error: Exception) -> None:
    for pending in waiting:
        if not pending.done():
            pending.set_exception(error)
