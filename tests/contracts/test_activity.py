"""Who was around, on every backend, as bitmaps that the domain reads."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from notifier.adapters.redis.cache import ACTIVITY_KEPT, RedisActivity
from notifier.adapters.redis.client import connect_async
from notifier.domain.bits import SHARD_BYTES, SHARD_MEMBERS, WORD, offsets
from notifier.domain.errors import CacheUnavailable
from notifier.domain.subject import Member
from notifier.ports.cache import Activity
from notifier.testing.memory.cache import MemoryActivity
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

T = TypeVar("T")

HOUR = 490_000


class Backend:
    """Asks one question at a time, each in a loop of its own, as a connection belongs to one."""

    def __init__(self, ask: Callable[[Callable[[Activity], Coroutine[Any, Any, Any]]], Any], wipe: Callable[[], None]):
        self._ask = ask
        self.wipe = wipe

    def touch(self, *members: int, hour: int = HOUR) -> None:
        self._ask(lambda activity: activity.touch([Member(member) for member in members], hour))

    def hour(self, hour: int, shard: int) -> bytes:
        found: bytes = self._ask(lambda activity: activity.hour(hour, shard))
        return found


def in_memory() -> Backend:
    fake = MemoryActivity()
    return Backend(lambda question: asyncio.run(question(fake)), fake.wipe)


def at(url: str, wipe: Callable[[], None] = lambda: None) -> Backend:
    async def ask(question: Callable[[Activity], Coroutine[Any, Any, T]]) -> T:
        async with connect_async(url) as client:
            return await question(RedisActivity(client))

    return Backend(lambda question: asyncio.run(ask(question)), wipe)


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def activity(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        return in_memory()
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return at(valkey.url, valkey.wipe)


def places(bitmap: bytes) -> list[int]:
    return [int(place) for place in offsets(np.frombuffer(bitmap.ljust(SHARD_BYTES, b"\0"), dtype=WORD))]


def test_nobody_was_around(activity: Backend) -> None:
    assert activity.hour(HOUR, 0) == b""


def test_who_was_touched_is_in_the_bitmap_of_the_hour_and_shard(activity: Backend) -> None:
    activity.touch(0, 1, 9, 1023, SHARD_MEMBERS - 1, SHARD_MEMBERS + 5)
    activity.touch(2, hour=HOUR + 1)
    assert places(activity.hour(HOUR, 0)) == [0, 1, 9, 1023, SHARD_MEMBERS - 1]
    assert places(activity.hour(HOUR, 1)) == [5]
    assert places(activity.hour(HOUR + 1, 0)) == [2]


def test_touching_twice_is_touching_once(activity: Backend) -> None:
    activity.touch(7, 7)
    activity.touch(7, 8)
    assert places(activity.hour(HOUR, 0)) == [7, 8]


def test_touching_nobody_is_nothing(activity: Backend) -> None:
    activity.touch()
    assert activity.hour(HOUR, 0) == b""


def test_a_wipe_forgets(activity: Backend) -> None:
    activity.touch(7)
    activity.wipe()
    assert activity.hour(HOUR, 0) == b""


def test_every_hour_has_an_end(valkey: Valkey) -> None:
    at(valkey.url).touch(7, SHARD_MEMBERS + 7)
    keys = list(valkey.client.scan_iter())
    assert len(keys) == 2
    assert all(0 < valkey.client.ttl(key) <= ACTIVITY_KEPT.total_seconds() for key in keys)


def test_without_a_server_it_says_so() -> None:
    with pytest.raises(CacheUnavailable):
        at("redis://127.0.0.1:1/0").touch(1)
