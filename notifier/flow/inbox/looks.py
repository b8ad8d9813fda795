"""Looks: proving for many requests at once that what is cached is current."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Protocol

from notifier.domain.errors import CacheUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.change_follower import ChangeFollower
from notifier.flow.inbox.store_breaker import Timer
from notifier.metrics import Metrics
from notifier.ports.inbox_versions import EVERYBODY, InboxVersions, NewsPosition, Scope, VersionLook

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
class Look:
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
