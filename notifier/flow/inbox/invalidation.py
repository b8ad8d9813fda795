"""Invalidation: a change to viewers' facts takes their version away before it is written, and again once it is durable.

The order makes caches safe against crashes. `begin` comes before the write, so that nobody caches what is read while
the write is under way; `finish` comes after it. A writer that dies in between leaves its mark, which expires. Where
Redis can't be told, the store's change feed says so after the write, and every process drops the facts that it cached.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.ports.clock import Nonces
from notifier.ports.inbox_versions import BurstChanges, InboxVersions, Scope, ViewerLapses, ViewerVersions

T = TypeVar("T")

BULK_ROWS = 2_000
"""Rows of a bulk write between two renewals of its mark: a second's work, where a mark lasts fifteen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
    def changing(self, scopes: Collection[Scope]) -> Iterator[Change]:
        """Wrap a write. An error leaves the mark: the write may still take effect, and nobody caches until it expires.

        Raises StoreUnavailable where neither Redis nor the store can be told; the caller then writes again.
        """
        change = Change(versions=self.versions, scopes=scopes, name=self.nonces.new())
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
