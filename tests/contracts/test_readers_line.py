"""The line in which readers wait for a connection to Redis: a long line is no sign that the server is silent."""

import asyncio
from typing import Any

from notifier.adapters.redis.connect import READERS, AsyncClient, connect_async
from notifier.domain.errors import CacheUnavailable
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]


async def ask(client: AsyncClient) -> str:
    try:
        with client.answered():
            await client.set("a", "b")
    except CacheUnavailable as error:
        return error.detail
    return "answered"


def test_who_waits_too_long_for_a_connection_keeps_nobody_else_from_asking(valkey: Valkey) -> None:
    async def crowd() -> list[str]:
        async with connect_async(valkey.url) as client:
            pool: Any = client.connection_pool
            held = [await pool.get_connection() for _ in range(READERS)]
            refused = await ask(client)
            await pool.release(held.pop())
            answered = await ask(client)
            for connection in held:
                await pool.release(connection)
            return [refused, answered]

    assert asyncio.run(crowd()) == [f"MaxConnectionsError: {READERS} others ask already.", "answered"]


def test_a_server_that_is_not_there_is_not_a_long_line() -> None:
    async def nobody() -> list[str]:
        async with connect_async("redis://127.0.0.1:1/0") as client:
            return [await ask(client), await ask(client)]

    refused, rests = asyncio.run(nobody())
    assert refused.startswith("ConnectionError")
    assert "isn't asked again yet" in rests
