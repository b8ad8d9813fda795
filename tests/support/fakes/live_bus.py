"""In-memory live bus that records messages, delivers them to listeners, and can lose connections."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import CAUGHT_UP_INTERVAL, LiveMessage, MarksChanged, MissedUpdates


@dataclass(slots=True)
class MemoryLiveBus:
    """Implements both ports. With listeners, it works in a single event loop."""

    published: list[Burst] = field(default_factory=list)
    stream: "list[Burst | MissedUpdates]" = field(default_factory=list)
    """Bursts and MissedUpdates that were published. Caching processes follow it."""
    listeners: "list[asyncio.Queue[LiveMessage | CacheUnavailable]]" = field(default_factory=list)
    away: bool = False
    """New listeners are rejected."""
    stalled: bool = False
    """Publishing fails, and listeners notice nothing."""
    deaf: bool = False
    """Messages are lost on the way, and neither side notices."""

    def publish(self, messages: Sequence[Burst | MissedUpdates]) -> None:
        if self.stalled:
            raise CacheUnavailable("It stalls.")
        self.stream.extend(messages)
        self.published.extend(message for message in messages if isinstance(message, Burst))
        self._send(messages)

    async def publish_marks(self, change: MarksChanged) -> None:
        if self.stalled:
            raise CacheUnavailable("It stalls.")
        self._send([change])

    def lose(self) -> None:
        """Disconnect all listeners, as a restart of Redis does."""
        for listener in self.listeners:
            listener.put_nowait(CacheUnavailable("The connection was lost."))

    async def listen(self) -> AsyncGenerator[LiveMessage | None, None]:
        if self.away:
            raise CacheUnavailable("It is away.")
        listener: asyncio.Queue[LiveMessage | CacheUnavailable] = asyncio.Queue()
        self.listeners.append(listener)
        try:
            yield None
            while True:
                try:
                    async with asyncio.timeout(CAUGHT_UP_INTERVAL.total_seconds()):
                        message = await listener.get()
                except TimeoutError:
                    yield None
                    continue
                if isinstance(message, CacheUnavailable):
                    raise message
                yield message
        finally:
            self.listeners.remove(listener)

    def _send(self, messages: Sequence[LiveMessage]) -> None:
        for listener in () if self.deaf else self.listeners:
            for message in messages:
                listener.put_nowait(message)
