"""One connection for the questions of many requests: they go out together, and none pays for another's end."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
import redis

from notifier.adapters.redis.kept_connection import Command, OneConnection, SharedConnection


class Server:
    """Answers each command by its second word, once it is let go; or fails."""

    def __init__(self) -> None:
        self.exchanges: list[Sequence[Command]] = []
        self.let_go = asyncio.Event()
        self.fails = False

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        self.exchanges.append(commands)
        await self.let_go.wait()
        if self.fails:
            raise redis.TimeoutError("No answer.")
        return [name for _, name in commands]


def shared(server: Server) -> SharedConnection:
    return SharedConnection(cast(OneConnection, cast(Any, server)))


async def asked(connection: SharedConnection, names: str) -> list[Any]:
    return await connection.ask([("get", name) for name in names])


async def begun(connection: SharedConnection, *questions: str) -> list["asyncio.Task[list[Any]]"]:
    """Tasks that ask; all of them wait for the server when it returns."""
    tasks = [asyncio.create_task(asked(connection, names)) for names in questions]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_questions_of_one_turn_and_those_that_wait_behind_it_are_two_exchanges() -> None:
    async def run() -> None:
        server = Server()
        connection = shared(server)
        tasks = [*await begun(connection, "a", "bc"), *await begun(connection, "d", "e")]
        server.let_go.set()
        assert await asyncio.gather(*tasks) == [["a"], ["b", "c"], ["d"], ["e"]]
        assert [len(commands) for commands in server.exchanges] == [3, 2]

    asyncio.run(run())


def test_caller_that_is_cancelled_costs_the_others_nothing() -> None:
    async def run() -> None:
        server = Server()
        first, second = await begun(shared(server), "a", "b")
        first.cancel()
        await asyncio.sleep(0)
        server.let_go.set()
        assert await second == ["b"]
        assert first.cancelled()

    asyncio.run(run())


def test_failed_exchange_fails_its_callers_and_not_the_next_ones() -> None:
    async def run() -> None:
        server = Server()
        server.fails = True
        connection = shared(server)
        tasks = await begun(connection, "a", "b")
        server.let_go.set()
        for task in tasks:
            with pytest.raises(redis.TimeoutError):
                await task
        server.fails = False
        assert await asked(connection, "c") == ["c"]

    asyncio.run(run())
