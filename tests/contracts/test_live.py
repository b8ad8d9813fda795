"""Listening to the live bus, on every backend: what is said comes in order, and a loss is never silent."""

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
from notifier.adapters.redis.live_bus import CHANNEL, RedisBus, RedisLiveReader
from notifier.adapters.valkey.server import ValkeyServer
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import UserId
from notifier.ports.live_bus import CAUGHT_UP_EVERY, LiveBus, LiveReader, Marked, MissedUpdates, Word
from tests.contracts.pull_backends import burst
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.live_bus import MemoryBus

__all__ = ["valkey", "valkey_server"]

SOON = 5.0
"""Seconds, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    bus: LiveBus
    reader: Callable[[], LiveReader]
    """For the loop that asks."""
    lose: Callable[[], object]
    """Every line to those who listen."""
    close: Callable[[], Awaitable[object]]
    """What a reader opened to say something."""


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        bus = MemoryBus()
        yield Backend(bus=bus, reader=lambda: bus, lose=bus.lose, close=lambda: asyncio.sleep(0))
        return
    clients: list[AsyncClient] = []
    found = cast(Valkey, request.getfixturevalue(request.param))

    def lose() -> object:
        return found.everywhere("CLIENT KILL TYPE pubsub")

    def reader() -> LiveReader:
        clients.append(connect_async(found.patient))
        return RedisLiveReader(clients[-1])

    def close() -> Awaitable[object]:
        return asyncio.gather(*(client.aclose() for client in clients))

    yield Backend(bus=RedisBus(found.client), reader=reader, lose=lose, close=close)


async def words(listening: AsyncGenerator[Word | None, None], many: int) -> list[Word]:
    """The next bursts, whatever the reader says in between."""
    found: list[Word] = []
    async with asyncio.timeout(SOON):
        while len(found) < many:
            if (word := await anext(listening)) is not None:
                found.append(word)
    return found


def test_it_says_that_it_hears_before_anything_else(backend: Backend) -> None:
    async def run() -> None:
        backend.bus.publish([burst(9)])  # nobody listens yet
        async with aclosing(backend.reader().listen()) as listening:
            assert await anext(listening) is None
            backend.bus.publish([burst(1)])
            assert await words(listening, 1) == [burst(1)]

    asyncio.run(run())


def test_bursts_come_in_the_order_in_which_they_were_said_growth_included(backend: Backend) -> None:
    async def run() -> list[Word]:
        async with aclosing(backend.reader().listen()) as listening:
            await anext(listening)
            backend.bus.publish([burst(2), burst(1)])
            backend.bus.publish([burst(2)])
            return await words(listening, 3)

    assert asyncio.run(run()) == [burst(2), burst(1), burst(2)]


def test_a_loss_is_told_at_its_place_among_the_bursts(backend: Backend) -> None:
    async def run() -> list[Word]:
        async with aclosing(backend.reader().listen()) as listening:
            await anext(listening)
            backend.bus.publish([burst(1), MissedUpdates(), burst(2)])
            return await words(listening, 3)

    assert asyncio.run(run()) == [burst(1), MissedUpdates(), burst(2)]


def test_what_somebody_marked_is_told_to_all_who_listen(backend: Backend) -> None:
    word = Marked(user=UserId("kim"), bursts=(burst(1).key, burst(2).key), by="a process")

    async def run() -> None:
        one, other = backend.reader(), backend.reader()
        async with aclosing(one.listen()) as mine, aclosing(other.listen()) as theirs:
            assert [await anext(mine), await anext(theirs)] == [None, None]
            await one.tell(word)
            assert [await words(mine, 1), await words(theirs, 1)] == [[word], [word]]
        await backend.close()

    asyncio.run(run())


def test_two_readers_hear_the_same(backend: Backend) -> None:
    async def run() -> None:
        async with aclosing(backend.reader().listen()) as one, aclosing(backend.reader().listen()) as other:
            assert [await anext(one), await anext(other)] == [None, None]
            backend.bus.publish([burst(1)])
            assert [await words(one, 1), await words(other, 1)] == [[burst(1)], [burst(1)]]

    asyncio.run(run())


def test_while_nothing_is_said_it_says_that_it_has_caught_up(backend: Backend) -> None:
    async def run() -> list[Word | None]:
        async with aclosing(backend.reader().listen()) as listening, asyncio.timeout(SOON):
            return [await anext(listening) for _ in range(3)]

    assert asyncio.run(run()) == [None, None, None]
    assert CAUGHT_UP_EVERY.total_seconds() * 3 < SOON


def test_what_was_said_before_is_given_before_it_says_that_it_has_caught_up(backend: Backend) -> None:
    async def run() -> list[Word | None]:
        async with aclosing(backend.reader().listen()) as listening, asyncio.timeout(SOON):
            await anext(listening)
            backend.bus.publish([burst(seq) for seq in range(1, 200)])
            found = []
            while (word := await anext(listening)) is not None:
                found.append(word)
            return [*found, word]

    assert asyncio.run(run()) == [*(burst(seq) for seq in range(1, 200)), None]


def test_a_lost_line_is_told_and_a_new_one_hears_again(backend: Backend) -> None:
    async def run() -> None:
        reader = backend.reader()
        async with aclosing(reader.listen()) as listening:
            await anext(listening)
            backend.lose()
            with pytest.raises(CacheUnavailable):
                await words(listening, 1)
        async with aclosing(await again(reader)) as listening:
            backend.bus.publish([burst(1)])
            assert await words(listening, 1) == [burst(1)]

    asyncio.run(run())


async def again(reader: LiveReader) -> AsyncGenerator[Word | None, None]:
    """Nobody is asked for a moment after a silence."""
    async with asyncio.timeout(SOON):
        while True:
            listening = reader.listen()
            try:
                assert await anext(listening) is None
                return listening
            except CacheUnavailable:
                await asyncio.sleep(0.05)


def test_a_message_of_another_version_is_a_loss(valkey: Valkey) -> None:
    async def run() -> None:
        async with connect_async(valkey.url) as client, aclosing(RedisLiveReader(client).listen()) as listening:
            await anext(listening)
            valkey.client.publish(CHANNEL, b"what is this?")
            with pytest.raises(CacheUnavailable, match="can't be read"):
                await words(listening, 1)

    asyncio.run(run())


def test_without_a_server_it_says_so() -> None:
    async def run() -> None:
        async with connect_async("redis://127.0.0.1:1/0") as client:
            with pytest.raises(CacheUnavailable):
                await anext(RedisLiveReader(client).listen())
            with pytest.raises(CacheUnavailable):
                await RedisLiveReader(client).tell(Marked(user=UserId("kim"), bursts=(), by=""))

    asyncio.run(run())


def test_a_server_that_hangs_is_noticed_within_seconds(tmp_path: Path) -> None:
    """Its connections stay open: only a ping without an answer tells."""
    server = ValkeyServer(tmp_path)
    server.start()

    async def run() -> None:
        async with connect_async(server.url()) as client, aclosing(RedisLiveReader(client).listen()) as listening:
            await anext(listening)
            os.kill(server.pid or 0, signal.SIGSTOP)
            with pytest.raises(CacheUnavailable):
                await words(listening, 1)

    try:
        asyncio.run(run())
    finally:
        os.kill(server.pid or 0, signal.SIGCONT)
        server.close()


def test_with_the_bus_away_nobody_begins_to_listen() -> None:
    async def run() -> None:
        await anext(MemoryBus(away=True).listen())

    with pytest.raises(CacheUnavailable):
        asyncio.run(run())
