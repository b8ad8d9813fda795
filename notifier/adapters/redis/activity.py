"""The hours of activity in Redis: bitmaps for each hour, in which bits are set and none is cleared."""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.client import AsyncClient, Client
from notifier.adapters.redis.scripts import Script
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bits import SHARD_BYTES, SHARD_MEMBERS, Bits, from_bytes
from notifier.domain.subject import Member
from notifier.ports.activity import KEPT

_ROLLED_UP = "active:rolled-up"

NEIGHBOURS = 16
"""Shards in one string: what is gathered in some seconds is for all of them, and each string costs the client ten
microseconds."""

_MEMBERS = NEIGHBOURS * SHARD_MEMBERS


_TOUCH = Script.named("touch")


class RedisActivity:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def touch(self, members: Collection[Member], hour: int) -> None:
        with self._client.answered():
            async with self._client.pipeline(transaction=False) as pipe:
                for call in _touches(members, hour):
                    pipe.eval(*call)
                await pipe.execute()


class RedisActiveHours:
    def __init__(self, client: Client) -> None:
        self._client = client

    def touch(self, members: Collection[Member], hour: int) -> None:
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for call in _touches(members, hour):
                pipe.eval(*call)
            pipe.execute()

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for shard in shards:
                first = shard % NEIGHBOURS * SHARD_BYTES
                pipe.getrange(_name(hour, shard // NEIGHBOURS), first, first + SHARD_BYTES - 1)
            found = pipe.execute()
        return {shard: bits for shard, said in zip(shards, found, strict=True) if (bits := _bits(said)).any()}

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


def _touches(members: Collection[Member], hour: int) -> Iterator[tuple[str, int, str, bytes, int]]:
    """The whole script, not its digest: it is short, and whoever has forgotten it is asked once, too."""
    places = defaultdict[int, list[int]](list)
    for member in members:
        # Redis counts a byte's bits from the highest, our bitmaps from the lowest.
        places[member // _MEMBERS].append(member % _MEMBERS ^ 7)
    for place, some in places.items():
        packed = struct.pack(f"<{len(some)}I", *some)
        yield _TOUCH.text, 1, _name(hour, place), packed, KEPT // timedelta(milliseconds=1)


def _bits(said: bytes) -> Bits:
    """A string ends with its last byte that isn't zero."""
    return from_bytes(said.ljust(SHARD_BYTES, b"\0"))


def _name(hour: int, place: int) -> str:
    return f"active:{hour}:{place}"
