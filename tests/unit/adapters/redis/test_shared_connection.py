"""Concurrent requests share one Redis connection without affecting each other."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
import redis

from notifier.adapters.redis.persistent_and_shared_connections import (
    CommandWords,
    PersistentConnection,
    SharedConnection,
)


class Server:
    """Returns the name in each command once it is released, or fails."""

    def __init__(self) -> None:
        self.exchanges: list[Sequence[CommandWords]] = []
        self.released = asyncio.Event()
        self.fails = False

    async def execute(self, commands: Sequence[CommandWords]) -> list[Any]:
        self.exchanges.append(commands)
        await self.released.wait()
        if self.fails:
            raise redis.TimeoutError("No answer.")
        return [name for _, name in commands]


def shared(server: Server) -> SharedConnection:
    return SharedConnection(cast(PersistentConnection, cast(Any, server)))


async def ask(connection: SharedConnection, names: str) -> list[Any]:
    return await connection.execute([("get", name) for name in names])


async def start_tasks(connection: SharedConnection, *batches: str) -> list["asyncio.Task[list[Any]]"]:
    """Start one task per batch of names; all tasks wait for the server on return."""
    tasks = [asyncio.create_task(ask(connection, names)) for names in batches]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_commands_of_one_loop_turn_share_an_exchange() -> None:
    async def run() -> None:
        server = Server()
        connection = shared(server)
        tasks = [*await start_tasks(connection, "a", "bc"), *await start_tasks(connection, "d", "e")]
        server.released.set()
        assert await asyncio.gather(*tasks) == [["a"], ["b", "c"], ["d"], ["e"]]
        assert [len(commands) for commands in server.exchanges] == [3, 2]

    asyncio.run(run())


def test_cancelled_caller_does_not_affect_other_callers() -> None:
    async def run() -> None:
        server = Server()
        first, second = await start_tasks(shared(server), "a", "b")
        first.cancel()
        await asyncio.sleep(0)
        server.released.set()
        assert await second == ["b"]
        assert first.cancelled()

    asyncio.run(run())


def test_failed_exchange_fails_only_its_own_callers() -> None:
    async def run() -> None:
        server = Server()
        server.fails = True
        connection = shared(server)
        tasks = await start_tasks(connection, "a", "b")
        server.released.set()
        for task in tasks:
            with pytest.raises(redis.TimeoutError):
                await task
        server.fails = False
        assert await ask(connection, "c") == ["c"]

    asyncio.run(run())
