"""Invalidation: a change to viewers' facts takes their version away before it is written, and again once it is durable.

The order makes caches safe against crashes. `begin` comes before the write, so that nobody caches what is read while
the write is under way; `finish` comes after it. A writer that dies in between leaves its mark, which expires. Where
Redis can't be told, the store's change feed says so after the write, and every process drops the facts that it cached.
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
    EVERYBODY,
    BurstChanges,
    InboxVersions,
    NewsPosition,
    Scope,
    VersionLook,
    ViewerLapses,
    ViewerVersions,
)

T = TypeVar("T")

BULK_ROWS = 2_000
"""Rows of a bulk write between two renewals of its mark: a second's work, where a mark lasts fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """One change under way."""

    versions: ViewerVersions
    scopes: Collection[Scope]
    name: str

    def begin(self) -> bool:
        """Return whether Redis took it."""
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

    def renewed_along(self, rows: Iterable[T]) -> Iterator[T]:
        """Pass on the rows of a bulk write, which may take longer than a mark lasts."""
        rows = iter(rows)
        while some := list(islice(rows, BULK_ROWS)):
            self.begin()
            yield from some


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidation:
    """The write path's, synchronous."""

    versions: ViewerVersions
    lapses: ViewerLapses
    nonces: Nonces

    @contextmanager
    def changing(self, scopes: Collection[Scope]) -> Iterator[PendingChange]:
        """Wrap a write. An error leaves the mark: the write may still take effect, and nobody caches until it expires.

        Raises StoreUnavailable where neither Redis nor the store can be told; the caller then writes again.
        """
        change = PendingChange(versions=self.versions, scopes=scopes, name=self.nonces.new())
        if not scopes:
            yield change
            return
        told = change.begin()
        try:
            yield change
        except BaseException:
            if not told:  # there is no mark, and the write may still take effect
                with suppress(StoreUnavailable):
                    self.lapses.record()
            raise
        if not (told and change.finish()):
            self.lapses.record()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncInvalidation:
    """The same for what users change themselves, asynchronous."""

    versions: InboxVersions
    changes: BurstChanges
    nonces: Nonces

    @asynccontextmanager
    async def changing(self, scopes: Collection[Scope]) -> AsyncIterator[None]:
        change = self.nonces.new()
        told = await self._begin(scopes, change)
        try:
            yield
        except BaseException:
            if not told:  # there is no mark, and the write may still take effect
                with suppress(StoreUnavailable):
                    await self.changes.lapse()
            raise
        if not (told and await self._finish(scopes, change)):
            await self.changes.lapse()

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


# Looks: proving for many requests at once that what is cached is current.

LOGGER = logging.getLogger("notifier.inbox")


class Looks(Protocol):
    async def look(
        self, scopes: Collection[Scope], *, patient: bool, users: Collection[UserId] = ()
    ) -> VersionLook | None:
        """Bring the subject cache up to date, then return the versions of this moment and what Redis remembers of the
        users; None without Redis.

        Raises StoreUnavailable where the store had to be read and did not answer; to a caller that is not patient, who
        has something to show meanwhile, within the deadline of a page.
        """
        ...


@dataclass(slots=True, kw_only=True)
class VersionCheck:
    """One look-up. Everything that was durable and announced before it is in the caches when it returns."""

    versions: InboxVersions
    follower: ChangeFollower
    metrics: Metrics
    position: NewsPosition | None = None

    async def look(
        self, scopes: Collection[Scope], *, patient: bool, users: Collection[UserId] = ()
    ) -> VersionLook | None:
        after, self.position = self.position, None
        try:
            with self.metrics.inbox_redis():
                found = await self.versions.look({*scopes, EVERYBODY}, after, users)
        except CacheUnavailable:  # fails over to the store, which knows as much and costs more
            self.metrics.outages.labels("cache").inc()
            await self.follower.catch_up()
            return None
        if after is None or found.news is None:
            await self.follower.catch_up()
            self.position = found.position  # only now: without the store nobody knows what was missed before it
        else:
            for burst in found.news:
                self.follower.subjects.hear(burst)
            self.position = found.position  # also where the store fails: partial pages go by the news alone
            await self.follower.keep_up()
        self.follower.viewers.connected(found.connection, self.follower.clock.now())
        return found


Answer = asyncio.Future[VersionLook | None]


@dataclass(slots=True, kw_only=True)
class SharedLooks:
    """For one event loop: one look-up at a time, and whoever comes meanwhile shares the next."""

    looks: Looks
    within: timedelta
    """After which impatient callers are told that the store is slow."""
    _scopes: set[Scope] = field(default_factory=set)
    _users: set[UserId] = field(default_factory=set)
    _waiting: list[Answer] = field(default_factory=list)
    _running: "asyncio.Task[None] | None" = None

    async def look(
        self, scopes: Collection[Scope], *, patient: bool, users: Collection[UserId] = ()
    ) -> VersionLook | None:
        answer: Answer = asyncio.get_running_loop().create_future()
        self._scopes.update(scopes)
        self._users.update(users)
        self._waiting.append(answer)
        timer = None if patient else Timer.start(self.within, partial(_refuse, answer))
        if self._running is None:
            # The task begins after all requests of this turn have come to wait.
            self._running = asyncio.ensure_future(self._run())
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            del answer, timer  # an error keeps this frame, and the answer keeps the error

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._answer()
        finally:
            self._running = None

    async def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        scopes, self._scopes = self._scopes, set()
        users, self._users = self._users, set()
        try:
            found = await self.looks.look(scopes, patient=True, users=users)
        except NotifierError as error:
            _fail(waiting, error)
        except Exception:  # those who wait for the next look-up must get it
            LOGGER.exception("look-up for inboxes failed")
            _fail(waiting, StoreUnavailable("The look-up failed."))
        except BaseException:
            _fail([*waiting, *self._waiting], StoreUnavailable("The look-up was stopped."))
            raise
        else:
            for answer in waiting:
                if not answer.done():
                    answer.set_result(found)
        finally:
            waiting.clear()  # an error keeps this frame, and the answers keep the error


def _refuse(answer: Answer) -> None:
    _fail([answer], StoreUnavailable("The store is slow."))


def _fail(waiting: Collection[Answer], error: Exception) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_exception(error)
