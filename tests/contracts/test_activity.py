"""Active hours on every backend: written by two ports, read as bitmaps."""

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import cast

import pytest

from notifier.adapters.redis import RedisActiveHours, RedisActivity
from notifier.adapters.redis.activity import SHARDS_PER_KEY
from notifier.adapters.redis.connect import connect, connect_async
from notifier.domain.audience.bitmap import SHARD_BYTES, SHARD_MEMBERS, members
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member
from notifier.ports.audience import ACTIVITY_KEPT_FOR, ActiveHours, Activity
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.activity_member_sets_and_follows import MemoryActiveHours, MemoryActivity
from tests.support.fakes.clock_and_nonces import START, ManualClock

__all__ = ["valkey", "valkey_server"]

HOUR = 490_000
NOWHERE = "redis://127.0.0.1:1/0"

Touch = Callable[[Collection[Member], int], None]


class Backend:
    def __init__(self, touch: Touch, hours: ActiveHours, wipe: Callable[[], None]) -> None:
        self.hours = hours
        self.wipe = wipe
        self._touch = touch

    def touch(self, *members: int, hour: int = HOUR) -> None:
        self._touch([Member(member) for member in members], hour)

    def read(self, *shards: int, hour: int = HOUR) -> dict[int, list[Member]]:
        return {shard: members(bits, shard) for shard, bits in self.hours.read(hour, shards).items()}


def in_memory() -> Backend:
    fake = MemoryActivity()
    hours = MemoryActiveHours(fake, ManualClock())
    return Backend(lambda members_, hour: asyncio.run(fake.touch(members_, hour)), hours, hours.wipe)


def touch_with_own_loop(url: str) -> Touch:
    """Return a function whose calls run one at a time, each in a loop of its own: a connection belongs to one loop."""

    async def touch(members_: Collection[Member], hour: int) -> None:
        async with connect_async(url) as client:
            activity: Activity = RedisActivity(client)
            await activity.touch(members_, hour)

    return lambda members_, hour: asyncio.run(touch(members_, hour))


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def activity(request: pytest.FixtureRequest) -> Backend:
    if request.param == "memory":
        return in_memory()
    valkey = cast(Valkey, request.getfixturevalue(request.param))
    return Backend(touch_with_own_loop(valkey.patient_url), RedisActiveHours(valkey.client), valkey.wipe)


def test_unused_cache_has_no_active_members(activity: Backend) -> None:
    assert activity.read(0, 1) == {}


def test_adjacent_shards_are_kept_apart(activity: Backend) -> None:
    shards = [0, SHARDS_PER_KEY - 1, SHARDS_PER_KEY, 5 * SHARDS_PER_KEY + 3]
    activity.touch(*(shard * SHARD_MEMBERS + shard for shard in shards))
    assert activity.read(*range(6 * SHARDS_PER_KEY)) == {shard: [shard * SHARD_MEMBERS + shard] for shard in shards}


def test_touched_member_is_in_bitmap_of_its_hour_and_shard(activity: Backend) -> None:
    activity.touch(0, 1, 9, 1023, SHARD_MEMBERS - 1, SHARD_MEMBERS + 5)
    activity.touch(2, hour=HOUR + 1)
    assert activity.read(0, 1, 2) == {0: [0, 1, 9, 1023, SHARD_MEMBERS - 1], 1: [SHARD_MEMBERS + 5]}
    assert activity.read(0, 1, hour=HOUR + 1) == {0: [2]}


def test_repeated_touch_changes_nothing(activity: Backend) -> None:
    activity.touch(7, 7)
    activity.touch(7, 8)
    assert activity.read(0) == {0: [7, 8]}


def test_alternating_touches_lose_no_members(activity: Backend) -> None:
    for member in range(0, 64, 2):
        activity.touch(member)
        activity.touch(member + 1)
    assert activity.read(0) == {0: list(range(64))}


def test_both_ports_keep_each_others_members(activity: Backend) -> None:
    for member in range(0, 64, 2):
        activity.touch(member, SHARD_MEMBERS * SHARDS_PER_KEY + member)
        activity.hours.touch([Member(member + 1)], HOUR)
        activity.hours.touch([Member(member), Member(member)], HOUR)
    assert activity.read(0, SHARDS_PER_KEY) == {
        0: list(range(64)),
        SHARDS_PER_KEY: [SHARD_MEMBERS * SHARDS_PER_KEY + member for member in range(0, 64, 2)],
    }


def test_touch_without_members_changes_nothing(activity: Backend) -> None:
    activity.touch()
    activity.hours.touch([], HOUR)
    assert activity.read(0) == {}


def test_wipe_forgets_hours_and_last_roll_up(activity: Backend) -> None:
    activity.touch(7)
    activity.hours.record_roll_up(START, timedelta(hours=1))
    activity.wipe()
    assert activity.read(0) == {}
    assert activity.hours.last_roll_up() is None


def test_last_roll_up_is_newest_recorded(activity: Backend) -> None:
    assert activity.hours.last_roll_up() is None
    for later in (0, 60):
        activity.hours.record_roll_up(START + timedelta(seconds=later), timedelta(hours=1))
    assert activity.hours.last_roll_up() == START + timedelta(seconds=60)


def test_every_hour_key_has_ttl(valkey: Valkey) -> None:
    touch_with_own_loop(valkey.patient_url)([Member(7)], HOUR)
    RedisActiveHours(valkey.client).touch([Member(SHARDS_PER_KEY * SHARD_MEMBERS + 7)], HOUR)
    keys = list(valkey.client.scan_iter())
    assert len(keys) == 2
    assert all(0 < valkey.client.ttl(key) <= ACTIVITY_KEPT_FOR.total_seconds() for key in keys)


def test_garbled_hour_is_empty_until_it_is_touched_again(valkey: Valkey) -> None:
    valkey.client.set(f"activity:{HOUR}:0", b"\x01" + bytes(SHARDS_PER_KEY * SHARD_BYTES + 1_000) + b"\x01")
    valkey.client.set("activity:rolled-up", b"yesterday")
    hours = RedisActiveHours(valkey.client)
    assert hours.read(HOUR, range(SHARDS_PER_KEY)) == {}
    assert hours.last_roll_up() is None
    valkey.client.set(f"activity:{HOUR}:0", b"\xff" * SHARD_BYTES)
    hours.touch([Member(7)], HOUR)
    assert [members(bits, 0) for bits in hours.read(HOUR, range(SHARDS_PER_KEY)).values()] == [[7]]


def test_hourly_activity_of_200_million_members_takes_half_a_gigabyte(valkey: Valkey) -> None:
    """Touch members of one Redis string in any order; there are 96 such strings."""
    touch, stride = touch_with_own_loop(valkey.patient_url), SHARDS_PER_KEY << 6
    for first in range(0, stride, 16):
        touch([Member(first + stride * offset) for offset in range(1 << 11)], HOUR)
    used = valkey.client.memory_usage(f"activity:{HOUR}:0")
    assert isinstance(used, int)
    assert used * 1_526 / SHARDS_PER_KEY * (ACTIVITY_KEPT_FOR / timedelta(hours=1) + 1) <= 500_000_000


def test_touch_and_read_fail_without_server() -> None:
    with pytest.raises(CacheUnavailable):
        touch_with_own_loop(NOWHERE)([Member(1)], HOUR)
    with connect(NOWHERE) as client, pytest.raises(CacheUnavailable):
        RedisActiveHours(client).read(HOUR, [0])
    with connect(NOWHERE) as client, pytest.raises(CacheUnavailable):
        RedisActiveHours(client).touch([Member(1)], HOUR)
