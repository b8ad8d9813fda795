"""A missing Redis server opens the circuit breaker; an exhausted connection pool does not."""

import asyncio
from typing import Any

from notifier.adapters.redis.connect import MAX_CONNECTIONS, AsyncClient, connect_async
from notifier.domain.errors import CacheUnavailable
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]


async def write_key(client: AsyncClient) -> str:
    try:
        with client.guarded():
            await client.set("a", "b")
    except CacheUnavailable as error:
        return error.detail
    return "answered"


def test_exhausted_pool_does_not_open_circuit_breaker(valkey: Valkey) -> None:
    async def exhaust_pool() -> list[str]:
        async with connect_async(valkey.url) as client:
            pool: Any = client.connection_pool
            connections = [await pool.get_connection() for _ in range(MAX_CONNECTIONS)]
            refused = await write_key(client)
            await pool.release(connections.pop())
            answered = await write_key(client)
            for connection in connections:
                await pool.release(connection)
            return [refused, answered]

    assert asyncio.run(exhaust_pool()) == [
        f"MaxConnectionsError: {MAX_CONNECTIONS} connections are in use.",
        "answered",
    ]


def test_missing_server_opens_circuit_breaker() -> None:
    async def call_missing_server() -> list[str]:
        async with connect_async("redis://127.0.0.1:1/0") as client:
            return [await write_key(client), await write_key(client)]

    refused, second = asyncio.run(call_missing_server())
    assert refused.startswith("ConnectionError")
    assert "tried again within a second" in second
