"""Who was around, on every backend, as bitmaps that the domain reads."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from notifier.adapters.redis.cache import ACTIVITY_KEPT, RedisActivity
from notifier.adapters.redis.client import connect
from notifier.domain.bits import SHARD_BYTES, SHARD_MEMBERS, WORD, offsets
from notifier.domain.errors import CacheUnavailable
from notifier.domain.subject import Member
from notifier.ports.cache import Activity
from notifier.testing.memory.cache import MemoryActivity
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

Backend = tuple[Activity, Callable[[], None]]
"""The port, and the way to wipe it."""

HOUR = 490_000


@pytest.fixture(params=["memory", "valkey"])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        fake = MemoryActivity()
        return fake, fake.wipe
    valkey = cast(Valkey, request.getfixturevalue("valkey"))
    return RedisActivity(valkey.client), valkey.wipe


@pytest.fixture
def activity(backend: Backend) -> Activity:
    return backend[0]


def places(bitmap: bytes) -> list[int]:
    return [int(place) for place in offsets(np.frombuffer(bitmap.ljust(SHARD_BYTES, b"\0"), dtype=WORD))]


def test_nobody_was_around(activity: Activity) -> None:
    assert activity.hour(HOUR, 0) == b""


def test_who_was_touched_is_in_the_bitmap_of_the_hour_and_shard(activity: Activity) -> None:
    for member in (0, 1, 9, 1023, SHARD_MEMBERS - 1, SHARD_MEMBERS + 5):
        activity.touch(Member(member), HOUR)
    activity.touch(Member(2), HOUR + 1)
    assert places(activity.hour(HOUR, 0)) == [0, 1, 9, 1023, SHARD_MEMBERS - 1]
    assert places(activity.hour(HOUR, 1)) == [5]
    assert places(activity.hour(HOUR + 1, 0)) == [2]


def test_touching_twice_is_touching_once(activity: Activity) -> None:
    activity.touch(Member(7), HOUR)
    activity.touch(Member(7), HOUR)
    assert places(activity.hour(HOUR, 0)) == [7]


def test_a_wipe_forgets(backend: Backend) -> None:
    activity, wipe = backend
    activity.touch(Member(7), HOUR)
    wipe()
    assert activity.hour(HOUR, 0) == b""


def test_every_hour_has_an_end(valkey: Valkey) -> None:
    RedisActivity(valkey.client).touch(Member(7), HOUR)
    [key] = valkey.client.scan_iter()
    assert 0 < valkey.client.ttl(key) <= ACTIVITY_KEPT.total_seconds()


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisActivity(client).touch(Member(1), HOUR)
