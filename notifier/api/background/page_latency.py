"""Page latency of an API process, reported to processes that send alerts.

Those processes slow down if the latency is high.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.api.background.activity_recorder import Pause
from notifier.concurrency_and_time_limits import Threads
from notifier.domain.errors import CacheUnavailable
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import InboxLatencyReport

REPORT_WINDOW = timedelta(seconds=5)
"""How far back a report covers pages, and how long a report is valid."""
MIN_PAGES = 20
"""Minimum pages per report: the 99th percentile of a few pages says little."""
MAX_PAGES = 4_096
"""Number of latest pages whose latency is kept: about 300 kB, and 0.5 ms of work each second."""
REPORT_SECONDS = 1.0
"""Seconds between two reports, while pages are opened."""


@dataclass(slots=True, kw_only=True)
class PageLatency:
    """Measures page latency, and reports its 99th percentile to Redis. One instance per event loop.

    No page waits for a report.
    """

    report: InboxLatencyReport
    owner: str
    """Name of this process in its reports."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    pause: Pause = asyncio.sleep
    pages: "deque[tuple[datetime, timedelta]]" = field(default_factory=lambda: deque(maxlen=MAX_PAGES))
    """When each page was completed, and how long that took."""
    has_unreported_pages: bool = False
    report_task: "asyncio.Task[None] | None" = None

    def record(self, started_at: datetime) -> None:
        """Record a page that has just been completed, or has failed."""
        now = self.clock.now()
        self.pages.append((now, now - started_at))
        self.has_unreported_pages = True
        if self.report_task is None or self.report_task.done():
            self.report_task = asyncio.create_task(self._report_all())

    async def _report_all(self) -> None:
        while self.has_unreported_pages:
            await self.pause(REPORT_SECONDS)
            self.has_unreported_pages = False
            while self.pages and self.pages[0][0] <= self.clock.now() - REPORT_WINDOW:
                self.pages.popleft()
            if len(self.pages) >= MIN_PAGES:
                await self._report(p99([duration for _, duration in self.pages]))

    async def _report(self, latency: timedelta) -> None:
        try:
            await self.threads.run(self.report.publish, self.owner, latency, REPORT_WINDOW)
        except CacheUnavailable:
            # Fails open: without a report, alerts are not slowed down.
            self.metrics.outages.labels("cache").inc()


def p99(durations: list[timedelta]) -> timedelta:
    """Return the 99th percentile: of a hundred durations, the second longest."""
    return sorted(durations)[(len(durations) - 1) * 99 // 100]
