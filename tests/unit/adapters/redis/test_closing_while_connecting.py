"""A client that is closed while it connects leaves no open socket.

On a busy machine, a service may end while one of its tasks connects.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import redis

from notifier.adapters.redis.cluster import AsyncClusterClient
from notifier.adapters.redis.connect import AsyncClient, connect_async
from notifier.adapters.redis.multi_host_address import multi_host_address
from notifier.adapters.redis.persistent_and_shared_connections import PersistentConnection
from notifier.adapters.redis.version_lookup_connection import ClusterLookupConnection

ANSWER = b"+OK\r\n"
Client = tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]
"""A call to the server, and a call that closes the client."""


def pooled(client: AsyncClient) -> Client:
    return client.ping, client.aclose


def persistent(client: AsyncClient) -> Client:
    connection = PersistentConnection(client.connection_pool, 5)
    return lambda: connection.execute([("ping",)]), connection.close


@pytest.mark.parametrize("client", [pooled, persistent])
@pytest.mark.parametrize("turns_before_close", range(1, 8))
def test_closing_while_connecting_leaves_no_socket(
    client: Callable[[AsyncClient], Client], turns_before_close: int
) -> None:
    async def run() -> None:
        was_connected, disconnected = False, asyncio.Event()

        async def answer_until_disconnected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal was_connected
            was_connected = True
            with suppress(ConnectionError):
                while commands := await reader.read(1_000):
                    writer.write(ANSWER * commands.count(b"*"))
            writer.close()
            disconnected.set()

        async with await asyncio.start_server(answer_until_disconnected, "127.0.0.1", 0) as server:
            call, close = client(connect_async(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
            task = asyncio.ensure_future(call())
            for _ in range(turns_before_close):
                await asyncio.sleep(0)
            await close()
            await asyncio.wait([task])
            assert isinstance(task.exception(), redis.RedisError | None)
            await asyncio.sleep(0.05)
            if was_connected:
                await asyncio.wait_for(disconnected.wait(), 5)

    asyncio.run(run())


def test_closed_connection_does_not_connect_again() -> None:
    async def run() -> None:
        call, close = persistent(connect_async("redis://127.0.0.1:1"))
        await close()
        with pytest.raises(redis.ConnectionError, match="closed"):
            await call()

    asyncio.run(run())


def test_closed_cluster_client_creates_no_further_nodes() -> None:
    async def run() -> None:
        address = multi_host_address("redis+cluster://127.0.0.1:1")
        assert address
        client = AsyncClusterClient(address)
        lookups = ClusterLookupConnection(client, 5)
        await lookups.close()
        await client.aclose()
        with pytest.raises(redis.ConnectionError, match="closed"):
            client.node(("127.0.0.1", 1))
        with pytest.raises(redis.ConnectionError):
            await lookups.execute([("get", "a")])

    asyncio.run(run())
