"""Live bus on Redis: one channel for each kind of message.

In a cluster all messages are published on one node, which keeps their order. One node is fast enough for a few
thousand messages a second.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from redis.asyncio.client import PubSub

from notifier.adapters.redis.connect import TIMEOUT, AsyncClient, RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import KeyKind
from notifier.adapters.redis.pipelined_calls import Command, run_calls
from notifier.adapters.redis.viewer_versions_and_burst_stream import stream_entry
from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.ports.live_bus import CAUGHT_UP_INTERVAL, LiveMessage, MarksChanged, MissedUpdates

BURSTS_CHANNEL = "live.bursts"
"""Channel of new and changed bursts. A message is the packed burst, so listeners need not read the store.

Listeners must not show the burst to users who may not see it.
"""
CHANNELS: dict[str, type[LiveMessage]] = {
    BURSTS_CHANNEL: Burst,
    "live.missed-updates": MissedUpdates,
    "live.marks-changed": MarksChanged,
}
"""Message type of each channel. Messages of one publisher arrive in the order of publishing, across channels."""
_CHANNEL_BY_TYPE = {kind: channel for channel, kind in CHANNELS.items()}


def pack_message(live_message: LiveMessage) -> tuple[str, bytes]:
    return _CHANNEL_BY_TYPE[type(live_message)], pack(live_message)


class RedisLiveBus:
    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def publish(self, messages: Sequence[Burst | MissedUpdates]) -> None:
        # Append to the burst stream first: a page that is opened because of a live message must find the burst.
        run_calls(self._client, [*map(stream_entry, messages), *map(_publish, messages)])


def _publish(live_message: LiveMessage) -> Command:
    channel, packed = pack_message(live_message)
    return Command("publish", channel, (packed,))


class RedisLiveReader:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def listen(self) -> AsyncGenerator[LiveMessage | None, None]:
        async with self._client.pubsub() as pubsub:
            await self._subscribe(pubsub)
            yield None
            clock = asyncio.get_running_loop().time
            pinged_at, is_answered = clock(), True
            while True:
                if is_answered and clock() - pinged_at >= CAUGHT_UP_INTERVAL.total_seconds():
                    await self._ping(pubsub)
                    pinged_at, is_answered = clock(), False
                reply = await self._next_reply(pubsub, TIMEOUT / 2)
                if reply and reply["type"] == "message":
                    yield self._live_message(reply)
                elif reply and reply["type"] == "pong":
                    # The server sends in order: messages published before the ping arrive before the pong.
                    is_answered = True
                    yield None
                elif reply:
                    # Another confirmation of the subscription: redis-py has connected and subscribed again.
                    raise CacheUnavailable("The connection was replaced; messages may be lost.")
                elif not is_answered and clock() - pinged_at > TIMEOUT:
                    raise CacheUnavailable("Redis does not answer a ping.")

    async def publish_marks(self, change: MarksChanged) -> None:
        with self._client.guarded():
            await self._client.publish(*pack_message(change))

    async def _subscribe(self, pubsub: PubSub) -> None:
        with self._client.guarded():
            await pubsub.subscribe(*CHANNELS)
        for _ in CHANNELS:
            if not await self._next_reply(pubsub, TIMEOUT):
                raise CacheUnavailable("Redis does not answer a subscription.")

    async def _ping(self, pubsub: PubSub) -> None:
        with self._client.guarded():
            await pubsub.ping()

    async def _next_reply(self, pubsub: PubSub, timeout: float) -> dict[str, Any] | None:
        with self._client.guarded():
            reply: dict[str, Any] | None = await pubsub.get_message(timeout=timeout)
        return reply

    def _live_message(self, reply: dict[str, Any]) -> LiveMessage:
        try:
            return unpack(CHANNELS[reply["channel"].decode()], reply["data"])
        except Poison as error:
            # Garbage, or a message of another version. The error makes the live hub reset its open streams.
            self._client.garbage.add(KeyKind.LIVE)
            raise CacheUnavailable("A message can't be decoded.") from error
