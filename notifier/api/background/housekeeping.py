"""Garbage collector tuning, page latency reports and page audits of an API process.

A full collection that traverses 2,000 cached viewers takes 0.3 s, during which no request is answered. So cached
objects are frozen, and collections skip them. Almost none is part of a cycle, so reference counts free them when they
leave a cache.
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
from notifier.concurrency_limits import Threads
from notifier.domain.errors import CacheUnavailable, Unavailable
from notifier.flow.inbox.page import OpenedInbox
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.push import InboxLatencyReport

YOUNG_THRESHOLD, MIDDLE_THRESHOLD = 500, 4
"""Objects per young collection, and young collections per middle collection.

A middle collection thus traverses about 2,000 objects, in about 3 ms.
"""
CHECK_INTERVAL = timedelta(minutes=1)
"""Interval of the checks whether a full collection is due."""
CHECKS_PER_FULL_COLLECTION = 60
"""Checks after which a full collection runs. It frees frozen objects that became cyclic garbage.

It runs earlier if the number of frozen objects has doubled since the last full collection.
"""


def tune_garbage_collector(sleep: Callable[[float], None] = time.sleep) -> None:
    """Freeze objects that survive a middle collection, and rarely run a full one. Call once per process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_THRESHOLD, MIDDLE_THRESHOLD)
    gc.callbacks.append(freeze_survivors)
    threading.Thread(target=_run_full_collections, args=(sleep,), name="collector", daemon=True).start()


def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def _run_full_collections(sleep: Callable[[float], None]) -> None:
    checks, frozen_count = 0, gc.get_freeze_count()
    while True:
        sleep(CHECK_INTERVAL.total_seconds())
        checks += 1
        if checks >= CHECKS_PER_FULL_COLLECTION or gc.get_freeze_count() > 2 * frozen_count:
            gc.unfreeze()
            gc.collect()
            checks, frozen_count = 0, gc.get_freeze_count()


# Page latency. It is reported about once a second to the processes that send alerts, which slow down if it is high.

REPORT_WINDOW = timedelta(seconds=5)
"""A report covers the pages that were completed in this time before it. It is valid for the same time after it."""
MIN_PAGES = 20
"""Minimum pages per report. With fewer pages, a single slow page would determine the percentile."""
MAX_PAGES = 4_096
"""Maximum pages whose latency is kept, the latest ones: about 300 kB, and 0.5 ms of work each second."""
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
    """When each page was completed, and how long it took."""
    has_unreported_pages: bool = False
    report_task: "asyncio.Task[None] | None" = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Measure the block that makes a page, even if it fails."""
        started_at = self.clock.now()
        try:
            yield
        finally:
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


# Page audits: a sample of the pages and badges is recomputed after the response was sent.

LOGGER = logging.getLogger("notifier.api")

ANSWERS_PER_AUDIT = 200
"""One of so many answers (pages, badges, new streams) is audited. Audits add 0.5 % reads.

A fault in 1 % of the answers is found after 20,000 answers on average.
"""
AUDIT_DELAY = timedelta(seconds=0.25)
"""Delay before an audit. The response has usually been sent by then. It also limits audits to four a second."""


class PageAudit(Protocol):
    async def compare(self, opened: OpenedInbox) -> None:
        """Recompute the page and badge, and count a difference. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class PageAuditSampler:
    """Audits the first answer and then about one in 200, one at a time. One instance per event loop.

    Auditing the first answer also checks a process with little traffic.
    """

    audit: PageAudit
    pause: Pause = asyncio.sleep
    answers_since_audit: int = ANSWERS_PER_AUDIT
    audit_task: "asyncio.Task[None] | None" = None

    def observe(self, opened: OpenedInbox) -> None:
        self.answers_since_audit += 1
        if self.answers_since_audit < ANSWERS_PER_AUDIT or (self.audit_task is not None and not self.audit_task.done()):
            return
        self.answers_since_audit = 0
        self.audit_task = asyncio.create_task(self._run(opened))

    async def _run(self, opened: OpenedInbox) -> None:
        await self.pause(AUDIT_DELAY.total_seconds())
        try:
            await self.audit.compare(opened)
        except Unavailable:  # fails open: a later answer will be audited
            return
        except Exception:  # no request waits for the audit, so its errors are only logged
            LOGGER.exception("an audit of a page failed")
