"""Measures activity tracking: CPU time per inbox open, and memory of Redis."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.costs_and_figures import Figure, Spread, median_at_most
from benchmarks.fanout.suite import Parts
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.redis import RedisActivity, connect, connect_async
from notifier.adapters.redis.activity import SHARDS_PER_KEY
from notifier.adapters.valkey import ValkeyServer
from notifier.api.background.activity_recorder import BATCH_SECONDS, ActivityRecorder
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.ids import Member, UserId
from notifier.domain.users.visibility import Marks, Viewer
from notifier.flow.inbox.page import InboxView, OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.audience import ACTIVITY_KEPT_FOR

CPU_US = 3.0
REDIS_MB = 500.0
PEOPLE = 200_000_000
OPENS, OPENS_QUICK = 200_000, 40_000
OPENS_PER_ROUND_TRIP = int(2_000 * BATCH_SECONDS)
"""Opens that a process sends to Redis in one round trip, at the expected 2,000 opens per second."""
ROUNDS, ROUNDS_QUICK = 5, 3
HOURS = ACTIVITY_KEPT_FOR // timedelta(hours=1) + 1
"""Hours of activity that Redis holds at any time."""
MEMBERS_PER_BATCH = 10_000
MB = 1024 * 1024


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    server = ValkeyServer(folder / "run")
    try:
        server.start()
        count = OPENS_QUICK if quick else OPENS
        tell(f"{count:,} inbox opens")
        times = [asyncio.run(_openings(server.url(), count, seed)) for seed in range(ROUNDS_QUICK if quick else ROUNDS)]
        tell(f"all {SHARDS_PER_KEY * SHARD_MEMBERS:,} users of one string open within an hour")
        filled = asyncio.run(_filled(server.url()))
        return [
            median_at_most("activity_cpu_us_per_open", times, CPU_US, unit="us", detail=f"{count:,} opens per round"),
            _memory(filled),
        ]
    finally:
        server.close()


async def _openings(url: str, count: int, seed: int) -> float:
    """Return the microseconds of CPU time that activity adds to an open.

    Hardly any user opens twice, which is the most expensive case.
    """
    people = np.random.default_rng(seed).integers(PEOPLE, size=count).tolist()
    openings = [_opened(Member(member)) for member in people]
    async with connect_async(url) as client:
        noting = ActivityRecorder(activity=RedisActivity(client), metrics=Metrics(), pause=lambda _: asyncio.sleep(0))
        began = process_time()
        for first in range(0, count, OPENS_PER_ROUND_TRIP):
            for opened in openings[first : first + OPENS_PER_ROUND_TRIP]:
                noting.observe(opened)
            if noting.send_task:
                await noting.send_task
        return (process_time() - began) / count * 1e6


async def _filled(url: str) -> float:
    """Return the MB that the server uses for the members of one string, filled in batches of opens."""
    with connect(url) as server:
        before = int(server.info("memory")["used_memory"])
        order = np.random.default_rng(1).permutation(SHARDS_PER_KEY * SHARD_MEMBERS)
        async with connect_async(url) as client:
            activity, hour = RedisActivity(client), hour_of(SystemClock().now()) + 1
            for members in np.array_split(order, len(order) // MEMBERS_PER_BATCH):
                await activity.touch([Member(member) for member in members.tolist()], hour)
        return (int(server.info("memory")["used_memory"]) - before) / MB


def _opened(member: Member) -> OpenedInbox:
    viewer = Viewer(user=UserId("ann"), follows={}, blocked=(), volume={}, marks=Marks())
    return OpenedInbox(
        view=InboxView(viewer=viewer, member=member, now=SystemClock().now()), after=None, page=None, badge=None
    )


def _memory(of_one: float) -> Figure:
    whole = of_one * HOURS * PEOPLE / (SHARDS_PER_KEY * SHARD_MEMBERS)
    detail = (
        f"all {PEOPLE:,} users open in each of {HOURS} hours, from {SHARDS_PER_KEY * SHARD_MEMBERS:,} users in one hour"
    )
    finding = at_most("activity_redis_mb", whole, REDIS_MB, unit="MB", n=SHARDS_PER_KEY, detail=detail)
    return Figure(finding=finding, ours=Spread.of([whole], "MB"))


PARTS: Parts = {"activity": (run, ("activity_cpu_us_per_open", "activity_redis_mb"))}
