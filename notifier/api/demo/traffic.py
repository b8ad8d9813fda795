"""Demo mentions: storms on request, and a trickle of one a second.

With several API processes, leases in the store decide which process generates the trickle or a storm.
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
from notifier.domain.upstream.validation import MENTIONED_TYPE
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces

STORM_CELEBRITIES = (UserId("nova"), UserId("orion"))
"""Celebrities that a storm can mention. By default all users follow the first, and a tenth the second."""
TRICKLE_RATE = 1
"""Mentions per second of the trickle."""
STORM_RATE = 100 * TRICKLE_RATE
"""Mentions per second of a storm."""
STORM_SECONDS = 8
"""Seconds of a storm. The demo's collapse window is 20 s, so a storm opens at most one burst."""
MENTIONS_PER_BATCH = 10
"""Mentions in each batch of a storm, except the first, which has one mention."""
STORM_LEASE, TRICKLE_LEASE = "demo-storm", "demo-trickle"
TRICKLE_TERM = timedelta(seconds=5)
"""Term of the trickle's lease. If the process with the lease is killed, another process continues after this time."""

AUTHORS = ("ada", "bob", "chen", "dana", "emre", "fay", "goran", "hana", "ines", "jun", "kofi", "lena", "milo", "noor")
TEXTS = ("have you seen this, @{}?", "@{} did it again", "what a night, @{}!", "@{} on stage now", "thank you, @{}")
TRICKLE_ACCOUNTS = (UserId("u3"), UserId("u5"), UserId("u8"))
"""Accounts that the trickle mentions. They have no followers, so a mention only adds a row for the account itself."""


class EventSink(Protocol):
    async def send(self, body: bytes) -> None:
        """Accept a batch of events. Raises NotifierError."""
        ...


class DemoLeases(Protocol):
    async def take_or_renew(self, name: str, term: timedelta) -> bool:
        """Take or renew the lease for `term`. Return False if another process has it.

        Raises StoreUnavailable or DiskFull.
        """
        ...


@dataclass(slots=True, kw_only=True)
class DemoTraffic:
    sink: EventSink
    leases: DemoLeases
    clock: Clock
    nonces: Nonces
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    rng: random.Random = field(default_factory=random.Random)
    storm_task: "asyncio.Task[None] | None" = None
    trickle_task: "asyncio.Task[None] | None" = None

    async def start_storm(self, celebrity: UserId) -> bool:
        """Start a storm. Return False if a storm is running in any process. Raises StoreUnavailable or DiskFull."""
        # Check again after taking the lease: a concurrent request to this process gets the same lease.
        if (
            self._is_storm_running()
            or not await self.leases.take_or_renew(STORM_LEASE, timedelta(seconds=STORM_SECONDS))
            or self._is_storm_running()
        ):
            return False
        self.storm_task = asyncio.create_task(self._send_storm(celebrity, STORM_RATE * STORM_SECONDS))
        return True

    def start_trickle(self) -> None:
        self.trickle_task = asyncio.create_task(self._send_trickle())

    def stop(self) -> None:
        for task in (self.storm_task, self.trickle_task):
            if task is not None:
                task.cancel()

    def _is_storm_running(self) -> bool:
        return self.storm_task is not None and not self.storm_task.done()

    async def _send_storm(self, celebrity: UserId, mention_count: int) -> None:
        """Send the mentions of a storm. If the gateway is slow, the storm ends on time with fewer mentions."""
        ends_at = self.clock.now() + timedelta(seconds=STORM_SECONDS)
        await self._send([celebrity], author=self.rng.choice(AUTHORS))
        for _ in range(mention_count // MENTIONS_PER_BATCH):
            if self.clock.now() >= ends_at:
                return
            await self._send([celebrity] * MENTIONS_PER_BATCH)
            await self.pause(MENTIONS_PER_BATCH / STORM_RATE)

    async def _send_trickle(self) -> None:
        async for account in self._trickle_accounts():
            if await self._has_trickle_lease():
                await self._send([account])

    async def _has_trickle_lease(self) -> bool:
        try:
            return await self.leases.take_or_renew(TRICKLE_LEASE, TRICKLE_TERM)
        except NotifierError:  # tried again in a second
            return False

    async def _trickle_accounts(self) -> AsyncIterator[UserId]:
        while True:
            await self.pause(1 / TRICKLE_RATE)
            yield self.rng.choice(TRICKLE_ACCOUNTS)

    async def _send(self, mentioned: Sequence[str], author: str | None = None) -> None:
        body = mention_batch(mentioned, author=author, now=self.clock.now(), new_id=self.nonces.new, rng=self.rng)
        with suppress(NotifierError):  # not repeated, because new mentions follow
            await self.sink.send(json.dumps(body).encode())


def mention_batch(
    mentioned: Sequence[str],
    *,
    now: datetime,
    new_id: Callable[[], str],
    author: str | None = None,
    rng: random.Random | None = None,
) -> Sequence[object]:
    """Return a batch of CloudEvents in the tweet service's format, one per mentioned account.

    All events have the given author. Without an author, each event has a random author.
    """
    rng = rng or random.Random()
    return [_event(account, author or _random_author(rng), rng.choice(TEXTS), now, new_id()) for account in mentioned]


def _random_author(rng: random.Random) -> str:
    """Return one of about 14,000 authors: so many that none reaches the author's cap."""
    return f"{rng.choice(AUTHORS)}{rng.randrange(1000) or ''}"


def _event(account: str, author: str, text: str, now: datetime, id: str) -> dict[str, object]:
    tweet = {"tweet": f"t-{id}", "author": author, "mentions": [account], "text": text.format(account)}
    attributes = {"specversion": "1.0", "type": MENTIONED_TYPE, "source": "notifier-demo", "id": id}
    return {**attributes, "time": now.isoformat(), "data": tweet}
