"""Viewer versions on every backend, and ways to break them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

import pytest

from notifier.adapters.redis.connect import connect_async
from notifier.adapters.redis.live_bus import RedisLiveBus
from notifier.adapters.redis.viewer_versions_and_burst_stream import (
    RedisViewerVersionReader,
    RedisViewerVersionWriter,
    version_key,
)
from notifier.domain.bursts.burst import Burst
from notifier.ports.inbox_cache_freshness import (
    PLACEHOLDER_TTL,
    BurstStreamPosition,
    Scope,
    VersionLookup,
    ViewerVersionReader,
    ViewerVersionWriter,
)
from notifier.ports.live_bus import LiveBus
from tests.contracts.valkey_fixture import Valkey
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.inbox_cache_freshness import (
    MemoryVersions,
    MemoryViewerVersionReader,
    MemoryViewerVersionWriter,
)
from tests.support.fakes.live_bus import MemoryLiveBus

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PATIENT = timedelta(seconds=15)

T = TypeVar("T")
Read = Callable[[ViewerVersionReader], Awaitable[T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    writer: ViewerVersionWriter
    bus: LiveBus
    wipe: Callable[[], None]
    expire: Callable[[Scope], None]
    """Lets the time pass after which an unfinished change of the scope is forgotten."""
    with_reader: Callable[[Read[VersionLookup]], VersionLookup]

    def look_up(self, scopes: Collection[Scope], after: BurstStreamPosition | None = None) -> VersionLookup:
        return self.with_reader(lambda reader: reader.look_up(scopes, after))

    def insert(self, scopes: Collection[Scope], version: str) -> VersionLookup:
        return self.with_reader(lambda reader: reader.insert_versions(scopes, version))

    def change(self, scopes: Collection[Scope], name: str = "c1") -> None:
        self.writer.begin(scopes, name)
        self.writer.finish(scopes, name)

    def published(self, after: BurstStreamPosition) -> Sequence[Burst] | None:
        return self.look_up((), after).published


def in_memory() -> Versions:
    clock, bus = ManualClock(NOON), MemoryLiveBus()
    shared = MemoryVersions(clock=clock, bus=bus)

    def expire(_: Scope) -> None:
        clock.advance(PLACEHOLDER_TTL)

    return Versions(
        writer=MemoryViewerVersionWriter(shared),
        bus=bus,
        wipe=shared.wipe,
        expire=expire,
        with_reader=lambda read: asyncio.run(_awaited(read(MemoryViewerVersionReader(shared)))),
    )


def on_valkey(valkey: Valkey) -> Versions:
    async def run_read(read: Read[VersionLookup]) -> VersionLookup:
        async with reader_of(valkey) as reader:
            return await read(reader)

    def expire(scope: Scope) -> None:
        remaining = valkey.client.pttl(version_key(scope))
        assert isinstance(remaining, int)
        assert 0 < remaining <= PLACEHOLDER_TTL / timedelta(milliseconds=1)
        valkey.client.delete(version_key(scope))

    return Versions(
        writer=RedisViewerVersionWriter(valkey.client),
        bus=RedisLiveBus(valkey.client),
        wipe=valkey.wipe,
        expire=expire,
        with_reader=lambda read: asyncio.run(run_read(read)),
    )


@asynccontextmanager
async def reader_of(valkey: Valkey) -> AsyncIterator[RedisViewerVersionReader]:
    async with connect_async(valkey.patient_url) as client:
        reader = RedisViewerVersionReader(client, PATIENT)
        try:
            yield reader
        finally:
            await reader.close()


async def _awaited(call: Awaitable[T]) -> T:
    return await call


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def versions(request: pytest.FixtureRequest) -> Versions:
    if request.param == "memory":
        return in_memory()
    return on_valkey(cast(Valkey, request.getfixturevalue(request.param)))
