"""Readers of the live bus get messages in order, and every loss is reported."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from notifier.adapters.redis.connect import AsyncClient, connect_async
from notifier.adapters.redis.live_bus import BURSTS_CHANNEL, RedisLiveBus, RedisLiveReader
from notifier.adapters.valkey.server import ValkeyServer
from notifier.devkit.engines.engine_process import suspend
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import UserId
from notifier.ports.live_bus import CAUGHT_UP_INTERVAL, LiveBus, LiveMessage, LiveReader, MarksChanged, MissedUpdates
from tests.contracts.pull_index_backends import burst
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.live_bus import MemoryLiveBus

__all__ = ["valkey", "valkey_server"]

MAX_WAIT_SECONDS = 5.0
"""Enough for each message on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    bus: LiveBus
    reader: Callable[[], LiveReader]
    """Returns a reader for the running event loop."""
    lose: Callable[[], object]
    """Breaks every connection of the listeners."""
    close: Callable[[], Awaitable[object]]
    """Closes the clients that readers opened to publish messages."""


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        bus = MemoryLiveBus()
        yield Backend(bus=bus, reader=lambda: bus, lose=bus.lose, close=lambda: asyncio.sleep(0))
        return
    clients: list[AsyncClient] = []
    valkey_ = cast(Valkey, request.getfixturevalue(request.param))

    def lose() -> object:
        return valkey_.everywhere("CLIENT KILL TYPE pubsub")

    def reader() -> LiveReader:
        clients.append(connect_async(valkey_.patient_url))
        return RedisLiveReader(clients[-1])

    def close() -> Awaitable[object]:
        return asyncio.gather(*(client.aclose() for client in clients))

    yield Backend(bus=RedisLiveBus(valkey_.client), reader=reader, lose=lose, close=close)


async def receive(stream: AsyncGenerator[LiveMessage | None, None], count: int) -> list[LiveMessage]:
    """Return the next messages, without the reader's caught-up markers."""
    received: list[LiveMessage] = []
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while len(received) < count:
            if (message := await anext(stream)) is not None:
                received.append(message)
    return received


def test_reader_reports_ready_before_first_message(backend: Backend) -> None:
    async def run() -> None:
        backend.bus.publish([burst(9)])  # no listener yet
        async with aclosing(backend.reader().listen()) as stream:
            assert await anext(stream) is None
            backend.bus.publish([burst(1)])
            assert await receive(stream, 1) == [burst(1)]

    asyncio.run(run())


def test_messages_arrive_in_publishing_order_repeats_included(backend: Backend) -> None:
    async def run() -> list[LiveMessage]:
        async with aclosing(backend.reader().listen()) as stream:
            await anext(stream)
            backend.bus.publish([burst(2), burst(1)])
            backend.bus.publish([burst(2)])
            return await receive(stream, 3)

    assert asyncio.run(run()) == [burst(2), burst(1), burst(2)]


def test_loss_is_reported_at_its_place_between_bursts(backend: Backend) -> None:
    async def run() -> list[LiveMessage]:
        async with aclosing(backend.reader().listen()) as stream:
            await anext(stream)
            backend.bus.publish([burst(1), MissedUpdates(), burst(2)])
            return await receive(stream, 3)

    assert asyncio.run(run()) == [burst(1), MissedUpdates(), burst(2)]


def test_marks_reach_all_readers(backend: Backend) -> None:
    marked = MarksChanged(user=UserId("kim"), bursts=(burst(1).key, burst(2).key), by="a process")

    async def run() -> None:
        reader, other_reader = backend.reader(), backend.reader()
        async with aclosing(reader.listen()) as stream, aclosing(other_reader.listen()) as other_stream:
            assert [await anext(stream), await anext(other_stream)] == [None, None]
            await reader.publish_marks(marked)
            assert [await receive(stream, 1), await receive(other_stream, 1)] == [[marked], [marked]]
        await backend.close()

    asyncio.run(run())


def test_two_readers_receive_the_same_messages(backend: Backend) -> None:
    async def run() -> None:
        async with aclosing(backend.reader().listen()) as stream, aclosing(backend.reader().listen()) as other_stream:
            assert [await anext(stream), await anext(other_stream)] == [None, None]
            backend.bus.publish([burst(1)])
            assert [await receive(stream, 1), await receive(other_stream, 1)] == [[burst(1)], [burst(1)]]

    asyncio.run(run())


def test_idle_reader_reports_that_it_has_caught_up(backend: Backend) -> None:
    async def run() -> list[LiveMessage | None]:
        async with aclosing(backend.reader().listen()) as stream, asyncio.timeout(MAX_WAIT_SECONDS):
            return [await anext(stream) for _ in range(3)]

    assert asyncio.run(run()) == [None, None, None]
    assert CAUGHT_UP_INTERVAL.total_seconds() * 3 < MAX_WAIT_SECONDS


def test_earlier_messages_arrive_before_caught_up_marker(backend: Backend) -> None:
    async def run() -> list[LiveMessage | None]:
        async with aclosing(backend.reader().listen()) as stream, asyncio.timeout(MAX_WAIT_SECONDS):
            await anext(stream)
            backend.bus.publish([burst(seq) for seq in range(1, 200)])
            received = []
            while (message := await anext(stream)) is not None:
                received.append(message)
            return [*received, message]

    assert asyncio.run(run()) == [*(burst(seq) for seq in range(1, 200)), None]


def test_lost_connection_is_reported_and_new_one_works(backend: Backend) -> None:
    async def run() -> None:
        reader = backend.reader()
        async with aclosing(reader.listen()) as stream:
            await anext(stream)
            backend.lose()
            with pytest.raises(CacheUnavailable):
                await receive(stream, 1)
        async with aclosing(await listen_again(reader)) as stream:
            backend.bus.publish([burst(1)])
            assert await receive(stream, 1) == [burst(1)]

    asyncio.run(run())


async def listen_again(reader: LiveReader) -> AsyncGenerator[LiveMessage | None, None]:
    """Retry until a connection succeeds: the circuit breaker refuses calls for a moment after a silence."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while True:
            stream = reader.listen()
            try:
                assert await anext(stream) is None
                return stream
            except CacheUnavailable:
                await asyncio.sleep(0.05)


def test_message_of_unknown_format_is_reported_as_loss(valkey: Valkey) -> None:
    async def run() -> None:
        async with connect_async(valkey.url) as client, aclosing(RedisLiveReader(client).listen()) as stream:
            await anext(stream)
            valkey.client.publish(BURSTS_CHANNEL, b"what is this?")
            with pytest.raises(CacheUnavailable, match="can't be decoded"):
                await receive(stream, 1)

    asyncio.run(run())


def test_reader_fails_without_server() -> None:
    async def run() -> None:
        async with connect_async("redis://127.0.0.1:1/0") as client:
            with pytest.raises(CacheUnavailable):
                await anext(RedisLiveReader(client).listen())
            with pytest.raises(CacheUnavailable):
                await RedisLiveReader(client).publish_marks(MarksChanged(user=UserId("kim"), bursts=(), by=""))

    asyncio.run(run())


def test_hung_server_is_noticed_within_seconds(tmp_path: Path) -> None:
    """The connections stay open, so only a ping without an answer reveals it."""
    server = ValkeyServer(tmp_path)
    server.start()

    async def run() -> None:
        async with connect_async(server.url()) as client, aclosing(RedisLiveReader(client).listen()) as stream:
            await anext(stream)
            suspend(server.pid or 0)
            with pytest.raises(CacheUnavailable):
                await receive(stream, 1)

    try:
        asyncio.run(run())
    finally:
        os.kill(server.pid or 0, signal.SIGCONT)
        server.close()


def test_listening_fails_while_bus_is_unavailable() -> None:
    async def run() -> None:
        await anext(MemoryLiveBus(away=True).listen())

    with pytest.raises(CacheUnavailable):
        asyncio.run(run())
