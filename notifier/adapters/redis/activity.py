"""The hours of activity in Redis: a bitmap for each hour and shard, in which bits are set and none is cleared."""

import struct
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.client import AsyncClient, Client
from notifier.adapters.redis.scripts import Script
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bits import SHARD_BYTES, SHARD_MEMBERS, Bits, from_bytes
from notifier.domain.subject import Member
from notifier.ports.activity import KEPT

_ROLLED_UP = "active:rolled-up"


class RedisActivity:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._touch = Script.named("touch")

    async def touch(self, members: Collection[Member], hour: int) -> None:
        places = defaultdict[int, list[int]](list)
        for member in members:
            # Redis counts a byte's bits from the highest, our bitmaps from the lowest.
            places[member // SHARD_MEMBERS].append(member % SHARD_MEMBERS ^ 7)
        with self._client.answered():
            async with self._client.pipeline(transaction=False) as pipe:
                for shard, some in places.items():
                    packed = struct.pack(f"<{len(some)}I", *some)
                    # The whole script, not its digest: it is short, and whoever has forgotten it is asked once, too.
                    pipe.eval(self._touch.text, 1, _name(hour, shard), packed, KEPT // timedelta(milliseconds=1))
                await pipe.execute()


class RedisActiveHours:
    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for shard in shards:
                pipe.get(_name(hour, shard))
            found = pipe.execute()
        return {shard: _bits(said) for shard, said in zip(shards, found, strict=True) if said}

    def rolled_up(self, at: datetime, lasting: timedelta) -> None:
        with self._client.answered():
            self._client.set(_ROLLED_UP, to_ms(at), px=lasting)

    def last_rolled_up(self) -> datetime | None:
        with self._client.answered():
            found = self._client.get(_ROLLED_UP)
        try:
            return from_ms(int(found)) if isinstance(found, bytes) else None
        except (ValueError, OverflowError):  # as if nothing had been said
            return None


def _bits(said: bytes) -> Bits:
    """A string ends with its last byte that isn't zero; one that is too long is somebody else's beyond the shard."""
    return from_bytes(said[:SHARD_BYTES].ljust(SHARD_BYTES, b"\0"))


def _name(hour: int, shard: int) -> str:
    return f"active:{hour}:{shard}"
