"""Noting who is around: the tab's openings, gathered for seconds and sent to the activity in one round trip."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.bitmap import SHARD_BYTES, SHARD_MEMBERS, shard_of
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member
from notifier.flow.inbox.page import OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.audience import Activity

GATHERED_FOR = 5.0
"""Seconds: nothing to an hour, and one round trip instead of ten thousand."""

Pause = Callable[[float], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class Noting:
    """For one loop. At most one touch a member and hour, however often the person looks; no opening waits for it."""

    activity: Activity
    metrics: Metrics
    pause: Pause = asyncio.sleep
    hour: int = 0
    noted: dict[int, bytearray] = field(default_factory=dict)
    """Bitmaps by shard, of this hour: 25 MB where 200 million people have looked."""
    waiting: dict[int, set[Member]] = field(default_factory=lambda: defaultdict(set))
    """By hour; the openings of one pause."""
    going: "asyncio.Task[None] | None" = None

    def observe(self, opened: OpenedInbox) -> None:
        hour = hour_of(opened.look.now)
        if hour > self.hour:
            self.hour, self.noted = hour, {}
        if not self._is_new(opened.look.member):
            return
        self.waiting[self.hour].add(opened.look.member)
        if self.going is None or self.going.done():
            self.going = asyncio.create_task(self._send())

    def _is_new(self, member: Member) -> bool:
        """And no longer is."""
        shard, place = shard_of(member), member % SHARD_MEMBERS
        if shard not in self.noted:
            self.noted[shard] = bytearray(SHARD_BYTES)
        byte, bit = self.noted[shard][place // 8], 1 << place % 8
        self.noted[shard][place // 8] = byte | bit
        return not byte & bit

    async def _send(self) -> None:
        while self.waiting:
            await self.pause(GATHERED_FOR)
            gathered, self.waiting = self.waiting, defaultdict(set)
            try:
                for hour, members in gathered.items():
                    await self.activity.touch(members, hour)
            except CacheUnavailable:
                # Fails open: who isn't noted now is at the next opening, of which nobody here counts as noted.
                self.noted = {}
                self.metrics.outages.labels("cache").inc()
