"""The live bus in Redis, as its readers know it: one subscription a process, and a ping that proves it still hears."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from redis.asyncio.client import PubSub

from notifier.adapters.redis.bus import CHANNELS, message
from notifier.adapters.redis.client import TIMEOUT, AsyncClient
from notifier.adapters.redis.keys import Kind
from notifier.codec import unpack
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.ports.live_bus import CAUGHT_UP_EVERY, Marked, Word


class RedisLiveReader:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def listen(self) -> AsyncGenerator[Word | None, None]:
        async with self._client.pubsub() as pubsub:
            await self._subscribe(pubsub)
            yield None
            now = asyncio.get_running_loop().time
            pinged_at, answered = now(), True
            while True:
                if answered and now() - pinged_at >= CAUGHT_UP_EVERY.total_seconds():
                    await self._ping(pubsub)
                    pinged_at, answered = now(), False
                heard = await self._next(pubsub, TIMEOUT / 2)
                if heard and heard["type"] == "message":
                    yield self._word(heard)
                elif heard and heard["type"] == "pong":
                    # The server sends in order: what was published before the ping has come before its answer.
                    answered = True
                    yield None
                elif heard:
                    raise CacheUnavailable("The connection broke and was replaced: words between the two are lost.")
                elif not answered and now() - pinged_at > TIMEOUT:
                    raise CacheUnavailable("It doesn't answer a ping.")

    async def tell(self, word: Marked) -> None:
        with self._client.answered():
            await self._client.publish(*message(word))

    async def _subscribe(self, pubsub: PubSub) -> None:
        with self._client.answered():
            await pubsub.subscribe(*CHANNELS)
        for _ in CHANNELS:
            if not await self._next(pubsub, TIMEOUT):
                raise CacheUnavailable("It doesn't answer a subscription.")

    async def _ping(self, pubsub: PubSub) -> None:
        with self._client.answered():
            await pubsub.ping()

    async def _next(self, pubsub: PubSub, within: float) -> dict[str, Any] | None:
        with self._client.answered():
            heard: dict[str, Any] | None = await pubsub.get_message(timeout=within)
        return heard

    def _word(self, heard: dict[str, Any]) -> Word:
        try:
            return unpack(CHANNELS[heard["channel"].decode()], heard["data"])
        except Poison as error:
            # Garbage, or another version's word: what it says is in the store, and a gap makes everybody look there.
            self._client.garbage.add(Kind.LIVE)
            raise CacheUnavailable("A message can't be read.") from error
