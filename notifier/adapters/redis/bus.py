"""The live bus on Redis: one published message a word, on a channel for each kind of word.

Of a cluster all words go to one node, which keeps their order; at a few thousand a second it needs no sharded channels.
"""

from collections.abc import Sequence

from notifier.adapters.redis.calls import Command, ask
from notifier.adapters.redis.client import Client
from notifier.adapters.redis.viewer_versions import news_entry
from notifier.codec import pack
from notifier.domain.bursts.burst import Burst
from notifier.ports.live_bus import Marked, Missed, Word

CHANNEL = "live"
"""The message is the packed burst: who listens need not read it, and shows it to nobody who may not see it."""
CHANNELS: dict[str, type[Word]] = {CHANNEL: Burst, "live.missed": Missed, "live.marked": Marked}
"""A message is the packed word. Those of one publisher come in its order, whatever their channels."""
_CHANNEL_OF = {kind: channel for channel, kind in CHANNELS.items()}


def message(word: Word) -> tuple[str, bytes]:
    return _CHANNEL_OF[type(word)], pack(word)


class RedisBus:
    def __init__(self, client: Client) -> None:
        self._client = client

    def publish(self, words: Sequence[Burst | Missed]) -> None:
        # The news first: a page that is opened because of a live message must find the burst.
        ask(self._client, [*map(news_entry, words), *map(_publish, words)])


def _publish(word: Word) -> Command:
    channel, packed = message(word)
    return Command("publish", channel, (packed,))
