"""Mentions made up for the demo: a storm that somebody asked for, and the few of an ordinary day.

Of several API processes one makes them: leases in the store say which.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.errors import NotifierError
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import EVENT_TYPE
from notifier.ports.coordination import Clock, Nonces

STARS = (UserId("nova"), UserId("orion"))
"""Whom a storm mentions: one whom everybody follows, and one whom a part of them follows."""
USUAL = 1
"""Mentions a second of an ordinary day."""
STORM = 100 * USUAL
LASTING = 8
"""Seconds; much shorter than the demo's collapse window, so that a storm is one burst on a slow machine, too."""
TOGETHER = 10
"""Events in a letter of the storm."""
STORM_LEASE, TRICKLE_LEASE = "demo-storm", "demo-trickle"
TRICKLE_TERM = timedelta(seconds=5)
"""After a process was killed its ordinary day stops for this long at most, until another process goes on with it."""

AUTHORS = ("ada", "bob", "chen", "dana", "emre", "fay", "goran", "hana", "ines", "jun", "kofi", "lena", "milo", "noor")
TEXTS = ("have you seen this, @{}?", "@{} did it again", "what a night, @{}!", "@{} on stage now", "thank you, @{}")
NEIGHBOURS = (UserId("u3"), UserId("u5"), UserId("u8"))
"""Whom an ordinary day mentions: nobody follows them, so each gets a row of their own and nobody else does."""


class EventSink(Protocol):
    async def send(self, body: bytes) -> None:
        """Pass a batch of events to the gateway. Raises what the gateway raises."""
        ...


class Leasing(Protocol):
    async def hold(self, name: str, term: timedelta) -> bool:
        """Return whether this process holds the lease for the term. Raises StoreUnavailable or Full."""
        ...


@dataclass(slots=True, kw_only=True)
class Storming:
    gateway: EventSink
    leases: Leasing
    clock: Clock
    nonces: Nonces
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: random.Random = field(default_factory=random.Random)
    running: "asyncio.Task[None] | None" = None
    trickling: "asyncio.Task[None] | None" = None

    async def storm(self, star: UserId) -> bool:
        """False while one is going on, in whichever process. Raises StoreUnavailable or Full."""
        # Whether it rages here is asked again after the wait: two requests of this process hold the same lease.
        if self._rages() or not await self.leases.hold(STORM_LEASE, timedelta(seconds=LASTING)) or self._rages():
            return False
        self.running = asyncio.create_task(self._all(star, STORM * LASTING))
        return True

    def trickle(self) -> None:
        """An ordinary day, for ever."""
        self.trickling = asyncio.create_task(self._for_ever())

    def stop(self) -> None:
        for task in (self.running, self.trickling):
            if task is not None:
                task.cancel()

    def _rages(self) -> bool:
        return self.running is not None and not self.running.done()

    async def _all(self, star: UserId, mentions: int) -> None:
        """Fewer where the gateway is slow: it ends in time."""
        ends = self.clock.now() + timedelta(seconds=LASTING)
        await self._letter([star], author=self.chance.choice(AUTHORS))
        for _ in range(mentions // TOGETHER):
            if self.clock.now() >= ends:
                return
            await self._letter([star] * TOGETHER)
            await self.pause(TOGETHER / STORM)

    async def _for_ever(self) -> None:
        async for whom in self._ordinary():
            if await self._trickles():
                await self._letter([whom])

    async def _trickles(self) -> bool:
        try:
            return await self.leases.hold(TRICKLE_LEASE, TRICKLE_TERM)
        except NotifierError:  # the store is away: it would not take the mention either
            return False

    async def _ordinary(self) -> AsyncIterator[UserId]:
        while True:
            await self.pause(1 / USUAL)
            yield self.chance.choice(NEIGHBOURS)

    async def _letter(self, mentioned: Sequence[str], author: str | None = None) -> None:
        body = letter(mentioned, author=author, now=self.clock.now(), fresh=self.nonces.new, chance=self.chance)
        with suppress(
            NotifierError
        ):  # what the gateway didn't take is not sent again: there is more where it came from
            await self.gateway.send(json.dumps(body).encode())


def letter(
    mentioned: Sequence[str],
    *,
    now: datetime,
    fresh: Callable[[], str],
    author: str | None = None,
    chance: random.Random | None = None,
) -> Sequence[object]:
    """A batch of CloudEvents as the tweet service writes them, one a name; the authors are many, or the one given."""
    dice = chance or random.Random()
    return [_event(whom, author or _somebody(dice), dice.choice(TEXTS), now, fresh()) for whom in mentioned]


def _somebody(chance: random.Random) -> str:
    """One of some ten thousand: who mentions a celebrity too often wakes no phones."""
    return f"{chance.choice(AUTHORS)}{chance.randrange(1000) or ''}"


def _event(whom: str, author: str, text: str, now: datetime, id: str) -> dict[str, object]:
    tweet = {"tweet": f"t-{id}", "author": author, "mentions": [whom], "text": text.format(whom)}
    head = {"specversion": "1.0", "type": EVENT_TYPE, "source": "notifier-demo", "id": id}
    return {**head, "time": now.isoformat(), "data": tweet}
