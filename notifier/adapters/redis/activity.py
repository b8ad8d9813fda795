"""User activity in Redis: bitmaps per hour whose bits are set, never cleared."""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.calls import RedisValue, ScriptCall, run_calls, run_calls_async
from notifier.adapters.redis.connect import AsyncClient, RedisClient
from notifier.adapters.redis.keys import CHECKSUM, KeyKind, LuaScript
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import SHARD_BYTES, SHARD_MEMBERS, Bits, from_bytes
from notifier.domain.ids import Member
from notifier.ports.audience import ACTIVITY_KEPT_FOR

NEIGHBOURS = 16
"""Adjacent shards that share one string.

Activity collected over a few seconds spans all shards, and each string costs the client ten microseconds.
"""

_MEMBERS = NEIGHBOURS * SHARD_MEMBERS


_RECORD_ACTIVITY = LuaScript.named(CHECKSUM, "record_activity")
_READ_ACTIVITY = LuaScript.named(CHECKSUM, "read_activity")


class RedisActivity:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def touch(self, members: Collection[Member], hour: int) -> None:
        await run_calls_async(self._client, list(_touches(members, hour)))


class RedisActiveHours:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._rolled_up = RedisValue(client, KeyKind.ACTIVITY.key("rolled-up"))

    def touch(self, members: Collection[Member], hour: int) -> None:
        run_calls(self._client, list(_touches(members, hour)))

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        places = defaultdict[int, list[int]](list)
        for shard in shards:
            places[shard // NEIGHBOURS].append(shard)
        calls = [
            ScriptCall(_READ_ACTIVITY, _name(hour, place), (SHARD_BYTES, *(shard % NEIGHBOURS for shard in group)))
            for place, group in places.items()
        ]
        bitmaps = (bitmap for answer in run_calls(self._client, calls) for bitmap in answer)
        requested = (shard for group in places.values() for shard in group)
        bits = {shard: _bits(bitmap) for shard, bitmap in zip(requested, bitmaps, strict=True)}
        return {shard: bits[shard] for shard in shards if bits[shard].any()}

    def record_roll_up(self, at: datetime, ttl: timedelta) -> None:
        self._rolled_up.set(str(to_ms(at)).encode(), ttl)

    def last_roll_up(self) -> datetime | None:
        value = self._rolled_up.get()
        return from_ms(int(value)) if value is not None else None


def _touches(members: Collection[Member], hour: int) -> Iterator[ScriptCall]:
    places = defaultdict[int, list[int]](list)
    for member in members:
        # Redis numbers the bits of a byte from the highest, our bitmaps from the lowest.
        places[member // _MEMBERS].append(member % _MEMBERS ^ 7)
    for place, offsets in places.items():
        packed = struct.pack(f"<{len(offsets)}I", *offsets)
        yield ScriptCall(_RECORD_ACTIVITY, _name(hour, place), (packed, ACTIVITY_KEPT_FOR // timedelta(milliseconds=1)))


def _bits(packed: bytes) -> Bits:
    """Unpack the bitmap of one shard. Redis omits the zero bytes at its end."""
    return from_bytes(packed.ljust(SHARD_BYTES, b"\0"))


def _name(hour: int, place: int) -> str:
    return KeyKind.ACTIVITY.key(hour, place)
