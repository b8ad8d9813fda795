"""The live bus in memory: it keeps what was said, tells those who listen, and can lose the line to them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from notifier.domain.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.bus import CAUGHT_UP_EVERY

Word = Burst | CacheUnavailable


@dataclass(slots=True)
class MemoryBus:
    """Both ports at once. For one loop, where anybody listens."""

    heard: list[Burst] = field(default_factory=list)
    lines: "list[asyncio.Queue[Word]]" = field(default_factory=list)
    away: bool = False
    """Nobody can begin to listen."""
    deaf: bool = False
    """Words are lost on the way, and nobody knows."""

    def publish(self, bursts: Sequence[Burst]) -> None:
        self.heard.extend(bursts)
        for line in () if self.deaf else self.lines:
            for burst in bursts:
                line.put_nowait(burst)

    def lose(self) -> None:
        """What a restart of Redis does to those who listen."""
        for line in self.lines:
            line.put_nowait(CacheUnavailable("The line was lost."))

    async def listen(self) -> AsyncGenerator[Burst | None, None]:
        if self.away:
            raise CacheUnavailable("It is away.")
        line: asyncio.Queue[Word] = asyncio.Queue()
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
