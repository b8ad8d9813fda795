"""The live bus on Redis: one published message a word, on a channel for each kind of word.

Of a cluster all words go to one node, which keeps their order; at a few thousand a second it needs no sharded channels.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from redis.asyncio.client import PubSub

from notifier.adapters.redis.calls import Command, ask
from notifier.adapters.redis.connect import TIMEOUT, AsyncClient, RedisClient
from notifier.adapters.redis.keys import KeyKind
from notifier.adapters.redis.viewer_versions import news_entry
from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.ports.live_bus import CAUGHT_UP_EVERY, Marked, MissedUpdates, Word

CHANNEL = "live"
"""The message is the packed burst: who listens need not read it, and shows it to nobody who may not see it."""
CHANNELS: dict[str, type[Word]] = {CHANNEL: Burst, "live.missed": MissedUpdates, "live.marked": Marked}
"""A message is the packed word. Those of one publisher come in its order, whatever their channels."""
_CHANNEL_OF = {kind: channel for channel, kind in CHANNELS.items()}


def message(word: Word) -> tuple[str, bytes]:
    return _CHANNEL_OF[type(word)], pack(word)


class RedisBus:
    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def publish(self, words: Sequence[Burst | MissedUpdates]) -> None:
        # The news first: a page that is opened because of a live message must find the burst.
        ask(self._client, [*map(news_entry, words), *map(_publish, words)])


def _publish(word: Word) -> Command:
    channel, packed = message(word)
    return Command("publish", channel, (packed,))


# The live bus in Redis, as its readers know it: one subscription a process, and a ping that proves it still hears.


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
            self._client.garbage.add(KeyKind.LIVE)
            raise CacheUnavailable("A message can't be read.") from error
