"""Record in Redis which users get a page, badge or stream."""

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

BATCH_SECONDS = 5.0
"""Seconds between two batches. Activity has a resolution of an hour, so the delay does not matter."""

Pause = Callable[[float], Awaitable[object]]
"""Waits for a number of seconds: `asyncio.sleep`, or a replacement of tests."""


@dataclass(slots=True, kw_only=True)
class ActivityRecorder:
    """Records each member once an hour, however often the user opens the inbox. One instance per event loop.

    No request waits until its activity is recorded.
    """

    activity: Activity
    metrics: Metrics
    pause: Pause = asyncio.sleep
    hour: int = 0
    """Hour of the latest activity, in hours since 1970."""
    recorded: dict[int, bytearray] = field(default_factory=dict)
    """Members recorded in this hour: one bitmap per shard with an active member, 25 MB for 200 million users."""
    next_batch: dict[int, set[Member]] = field(default_factory=lambda: defaultdict(set))
    """Members of the next batch, by hour."""
    send_task: "asyncio.Task[None] | None" = None

    def observe(self, opened: OpenedInbox) -> None:
        hour = hour_of(opened.view.now)
        if hour > self.hour:
            self.hour, self.recorded = hour, {}
        if not self._record_if_new(opened.view.member):
            return
        self.next_batch[self.hour].add(opened.view.member)
        if self.send_task is None or self.send_task.done():
            self.send_task = asyncio.create_task(self._send())

    def _record_if_new(self, member: Member) -> bool:
        """Set the member's bit of this hour. Return whether it was not set before."""
        shard, index = shard_of(member), member % SHARD_MEMBERS
        if shard not in self.recorded:
            self.recorded[shard] = bytearray(SHARD_BYTES)
        byte, bit = self.recorded[shard][index // 8], 1 << index % 8
        self.recorded[shard][index // 8] = byte | bit
        return not byte & bit

    async def _send(self) -> None:
        while self.next_batch:
            await self.pause(BATCH_SECONDS)
            batch, self.next_batch = self.next_batch, defaultdict(set)
            try:
                for hour, members in batch.items():
                    await self.activity.touch(members, hour)
            except CacheUnavailable:
                # Fails open: the batch is lost. Clear `recorded`, so that the members' next requests record them again.
                self.recorded = {}
                self.metrics.outages.labels("cache").inc()
