"""Hiding: what takes something back is answered once it is done, by itself: no mention waits with it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from notifier.domain.bursts.retraction import Retraction

AT_ONCE = 8
"""Of the edge's threads; the others are for the log, which mustn't wait for a store that is slow."""
WITHIN = 2.0
"""Seconds that one waits for its turn; after that the answer doesn't, and the retractor does it from the log."""


@dataclass(slots=True, kw_only=True)
class Hiding:
    """For one loop."""

    settle: Callable[[Retraction], Awaitable[None]]
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    within: float = WITHIN

    async def __call__(self, retraction: Retraction) -> None:
        try:
            async with asyncio.timeout(self.within):
                await self.turns.acquire()
        except TimeoutError:
            return
        try:
            await self.settle(retraction)
        finally:
            self.turns.release()
