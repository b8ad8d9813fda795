"""The live bus on Redis: one published message a burst, on one channel."""

from collections.abc import Sequence

from notifier.adapters.redis.client import Client
from notifier.codec import pack
from notifier.domain.burst import Burst

CHANNEL = "live"
"""The message is the packed burst: who listens need not read it, and shows it to nobody who may not see it."""


class RedisBus:
    def __init__(self, client: Client) -> None:
        self._client = client

    def publish(self, bursts: Sequence[Burst]) -> None:
        with self._client.answered(), self._client.pipeline(transaction=False) as pipe:
            for burst in bursts:
                pipe.publish(CHANNEL, pack(burst))
            pipe.execute()
