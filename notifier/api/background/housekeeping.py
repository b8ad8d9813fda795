"""Garbage collector tuning, page latency reports and page audits of an API process.

Normally the collector does not traverse cached objects: a full collection with 2,000 cached viewers takes 0.3 s, during
which no request is answered. Almost no object is part of a cycle, so cached objects are freed when they leave a cache.
"""

import asyncio
import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from notifier.api.background.activity_recorder import Pause
from notifier.bounded_executor import Threads
from notifier.domain.errors import CacheUnavailable, Unavailable
from notifier.flow.inbox.page import OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.push import InboxLatencyReport

YOUNG_THRESHOLD, MIDDLE_THRESHOLD = 500, 4
"""Objects per young collection, and young collections per middle collection. 2,000 objects take about 3 ms."""
CHECK_INTERVAL = timedelta(minutes=1)
CHECKS_PER_FULL_COLLECTION = 60
"""Checks between two full collections. A full collection frees frozen objects that became cyclic garbage.

A full collection runs earlier if the number of frozen objects has doubled since the last one.
"""


def tune_garbage_collector(sleep: Callable[[float], None] = time.sleep) -> None:
    """Freeze objects that survive a middle collection, and run rare full collections. Call once per process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD)
    gc.callbacks.append(freeze_survivors)
    threading.Thread(target=_collect_all, args=(sleep,), name="collector", daemon=True).start()


def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def _collect_all(sleep: Callable[[float], None]) -> None:
    checks, frozen = 0, gc.get_freeze_count()
    while True:
        sleep(CHECK_INTERVAL.total_seconds())
        checks += 1
        if checks >= CHECKS_PER_FULL_COLLECTION or gc.get_freeze_count() > 2 * frozen:
            gc.unfreeze()
            gc.collect()
            checks, frozen = 0, gc.get_freeze_count()


# Page latency, reported about once a second to the processes that send alerts.

REPORT_WINDOW = timedelta(seconds=5)
"""How long a page is included in reports, and how long a report is valid."""
MIN_PAGES = 20
"""Minimum pages per report. With fewer pages, a single slow page would determine the percentile."""
MAX_PAGES = 4_096
"""Latest pages that are kept: about 300 kB, and 0.5 ms of work each second."""
REPORT_SECONDS = 1.0
"""Seconds between two reports, while pages are opened."""


@dataclass(slots=True, kw_only=True)
class PageLatency:
    """Measures page latency and reports its 99th percentile. One instance per event loop. No page waits for Redis."""

    report: InboxLatencyReport
    owner: str
    """Name of this process in the report."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    pause: Pause = asyncio.sleep
    pages: "deque[tuple[datetime, timedelta]]" = field(default_factory=lambda: deque(maxlen=MAX_PAGES))
    """When each page was completed, and how long it took."""
    has_unreported: bool = False
    reporting: "asyncio.Task[None] | None" = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Measure the block that makes a page, even if it fails."""
        started_at = self.clock.now()
        try:
            yield
        finally:
            now = self.clock.now()
            self.pages.append((now, now - started_at))
            self.has_unreported = True
            if self.reporting is None or self.reporting.done():
                self.reporting = asyncio.create_task(self._report_all())

    async def _report_all(self) -> None:
        while self.has_unreported:
            await self.pause(REPORT_SECONDS)
            self.has_unreported = False
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


# Page audits: a sample of inbox pages is recomputed after the response was sent.

LOGGER = logging.getLogger("notifier.api")

OPENINGS_PER_AUDIT = 200
"""One audit per so many openings adds 0.5 % reads. A fault in 1 % of the openings is found within 20,000 openings."""
AUDIT_DELAY = timedelta(seconds=0.25)
"""Delay before an audit. The response is sent by then, and a process runs at most four audits a second."""


class PageAudit(Protocol):
    async def compare(self, opened: OpenedInbox) -> None:
        """Recompute the page and count a difference. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class PageAuditSampler:
    """Audits a sample of openings, one at a time. One instance per event loop.

    The first opening is audited, so that a process with little traffic is checked too.
    """

    audit: PageAudit
    pause: Pause = asyncio.sleep
    skipped: int = OPENINGS_PER_AUDIT
    running: "asyncio.Task[None] | None" = None

    def observe(self, opened: OpenedInbox) -> None:
        self.skipped += 1
        if self.skipped < OPENINGS_PER_AUDIT or (self.running is not None and not self.running.done()):
            return
        self.skipped = 0
        self.running = asyncio.create_task(self._run(opened))

    async def _run(self, opened: OpenedInbox) -> None:
        await self.pause(AUDIT_DELAY.total_seconds())
        try:
            await self.audit.compare(opened)
        except Unavailable:  # fails open: a later opening will be audited
            return
        except Exception:  # no request waits for the audit, so its errors are only logged
            LOGGER.exception("an audit of a page failed")
