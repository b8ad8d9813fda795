"""The live bus in memory: it keeps what was said, tells those who listen, and can lose the line to them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import CAUGHT_UP_EVERY, Marked, MissedUpdates, Word


@dataclass(slots=True)
class MemoryBus:
    """Both ports at once. For one loop, where anybody listens."""

    heard: list[Burst] = field(default_factory=list)
    news: "list[Burst | MissedUpdates]" = field(default_factory=list)
    """What processes that cache inboxes follow."""
    lines: "list[asyncio.Queue[Word | CacheUnavailable]]" = field(default_factory=list)
    away: bool = False
    """Nobody can begin to listen."""
    stalled: bool = False
    """Nobody can say anything, and those who listen notice nothing."""
    deaf: bool = False
    """Words are lost on the way, and nobody knows."""

    def publish(self, words: Sequence[Burst | MissedUpdates]) -> None:
        if self.stalled:
            raise CacheUnavailable("It stalls.")
        self.news.extend(words)
        self.heard.extend(word for word in words if isinstance(word, Burst))
        self._say(words)

    async def tell(self, word: Marked) -> None:
        if self.stalled:
            raise CacheUnavailable("It stalls.")
        self._say([word])

    def lose(self) -> None:
        """What a restart of Redis does to those who listen."""
        for line in self.lines:
            line.put_nowait(CacheUnavailable("The line was lost."))

    async def listen(self) -> AsyncGenerator[Word | None, None]:
        if self.away:
            raise CacheUnavailable("It is away.")
        line: asyncio.Queue[Word | CacheUnavailable] = asyncio.Queue()
        self.lines.append(line)
        try:
            yield None
            while True:
                try:
                    async with asyncio.timeout(CAUGHT_UP_EVERY.total_seconds()):
                        word = await line.get()
                except TimeoutError:
                    yield None
                    continue
                if isinstance(word, CacheUnavailable):
                    raise word
                yield word
        finally:
            self.lines.remove(line)

    def _say(self, words: Sequence[Word]) -> None:
        for line in () if self.deaf else self.lines:
            for word in words:
                line.put_nowait(word)
