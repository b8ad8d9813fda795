"""User activity in Redis: bitmaps of the members active in an hour."""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.connect import AsyncClient, RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import CHECKSUM_FILE, KeyKind, LuaScript
from notifier.adapters.redis.pipelined_calls import RedisValue, ScriptCall, run_calls, run_calls_async
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import SHARD_BYTES, SHARD_MEMBERS, Bits, from_bytes
from notifier.domain.ids import Member
from notifier.ports.audience import ACTIVITY_KEPT_FOR

SHARDS_PER_KEY = 16
"""Adjacent shards share a key, because each key of a call costs the client ten microseconds."""

_MEMBERS_PER_KEY = SHARDS_PER_KEY * SHARD_MEMBERS


_RECORD_ACTIVITY = LuaScript.load(CHECKSUM_FILE, "record_activity")
_READ_ACTIVITY = LuaScript.load(CHECKSUM_FILE, "read_activity")


class RedisActivity:
    """Asynchronous writer of activity, for API processes."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def touch(self, members: Collection[Member], hour: int) -> None:
        await run_calls_async(self._client, list(_touch_calls(members, hour)))


class RedisActiveHours:
    """Synchronous writer and reader of activity."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._last_roll_up = RedisValue(client, KeyKind.ACTIVITY.key("rolled-up"))

    def touch(self, members: Collection[Member], hour: int) -> None:
        run_calls(self._client, list(_touch_calls(members, hour)))

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        shards_by_key = defaultdict[int, list[int]](list)
        for shard in shards:
            shards_by_key[shard // SHARDS_PER_KEY].append(shard)
        calls = [
            ScriptCall(
                _READ_ACTIVITY,
                _activity_key(hour, key_number),
                (SHARD_BYTES, *(shard % SHARDS_PER_KEY for shard in key_shards)),
            )
            for key_number, key_shards in shards_by_key.items()
        ]
        packed_bitmaps = (packed for answer in run_calls(self._client, calls) for packed in answer)
        shards_in_order = (shard for key_shards in shards_by_key.values() for shard in key_shards)
        bitmaps = {shard: _unpack_bitmap(packed) for shard, packed in zip(shards_in_order, packed_bitmaps, strict=True)}
        return {shard: bitmaps[shard] for shard in shards if bitmaps[shard].any()}

    def record_roll_up(self, at: datetime, ttl: timedelta) -> None:
        self._last_roll_up.set(str(to_ms(at)).encode(), ttl)

    def last_roll_up(self) -> datetime | None:
        value = self._last_roll_up.get()
        return from_ms(int(value)) if value is not None else None


def _touch_calls(members: Collection[Member], hour: int) -> Iterator[ScriptCall]:
    offsets_by_key = defaultdict[int, list[int]](list)
    for member in members:
        # Redis numbers the bits of a byte from the highest, our bitmaps from the lowest.
        offsets_by_key[member // _MEMBERS_PER_KEY].append(member % _MEMBERS_PER_KEY ^ 7)
    for key_number, offsets in offsets_by_key.items():
        packed = struct.pack(f"<{len(offsets)}I", *offsets)
        yield ScriptCall(
            _RECORD_ACTIVITY, _activity_key(hour, key_number), (packed, ACTIVITY_KEPT_FOR // timedelta(milliseconds=1))
        )


def _unpack_bitmap(packed: bytes) -> Bits:
    """Unpack the bitmap of one shard. `packed` is shorter than the bitmap if the stored value ends earlier."""
    return from_bytes(packed.ljust(SHARD_BYTES, b"\0"))


def _activity_key(hour: int, key_number: int) -> str:
    return KeyKind.ACTIVITY.key(hour, key_number)
