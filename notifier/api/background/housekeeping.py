"""Garbage collector tuning, page latency reports and page audits of an API process.

The collector never traverses cached objects. A full collection with 2,000 cached viewers takes 0.3 s, during which no
request is answered. Almost no object is part of a cycle: cached objects are freed when they leave their cache.
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
from notifier.ports.push import TabReport

YOUNG, MIDDLE = 500, 4
"""Objects per young collection, and young collections per middle collection. 2,000 objects take about 3 ms."""
LOOKS_EVERY = timedelta(minutes=1)
FULL_AFTER = 60
"""Checks between two full collections, which free frozen objects that became cyclic garbage.

A full collection runs earlier if the number of frozen objects has doubled since the last one.
"""


def keep_pauses_short(sleep: Callable[[float], None] = time.sleep) -> None:
    """Freeze objects that survive a middle collection, and run rare full collections. Call once per process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE)
    gc.callbacks.append(set_survivors_aside)
    threading.Thread(target=_collect_all, args=(sleep,), name="collector", daemon=True).start()


def set_survivors_aside(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def _collect_all(sleep: Callable[[float], None]) -> None:
    checks, frozen = 0, gc.get_freeze_count()
    while True:
        sleep(LOOKS_EVERY.total_seconds())
        checks += 1
        if checks >= FULL_AFTER or gc.get_freeze_count() > 2 * frozen:
            gc.unfreeze()
            gc.collect()
            checks, frozen = 0, gc.get_freeze_count()


# Page latency, reported about once a second to the processes that send alerts.

LATELY = timedelta(seconds=5)
"""How long a page is included in reports, and how long a report is valid."""
FEWEST = 20
"""Minimum pages per report. With fewer pages, a single slow one would determine the percentile."""
MOST = 4_096
"""Pages kept, the latest ones: about 300 kB, and 0.5 ms of work each second."""
TOLD_EVERY = 1.0
"""Seconds between two reports, while pages are opened."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """Measures page latency and reports its 99th percentile. One instance per event loop. No page waits for Redis."""

    tabs: TabReport
    owner: str
    """Name of this process in the report."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    pause: Pause = asyncio.sleep
    pages: "deque[tuple[datetime, timedelta]]" = field(default_factory=lambda: deque(maxlen=MOST))
    """When each page was completed, and how long it took."""
    untold: bool = False
    going: "asyncio.Task[None] | None" = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Measure the block that makes a page, even if it fails."""
        started_at = self.clock.now()
        try:
            yield
        finally:
            now = self.clock.now()
            self.pages.append((now, now - started_at))
            self.untold = True
            if self.going is None or self.going.done():
                self.going = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self.untold:
            await self.pause(TOLD_EVERY)
            self.untold = False
            while self.pages and self.pages[0][0] <= self.clock.now() - LATELY:
                self.pages.popleft()
            if len(self.pages) >= FEWEST:
                await self._tell(p99([duration for _, duration in self.pages]))

    async def _tell(self, found: timedelta) -> None:
        try:
            await self.threads.run(self.tabs.tell, self.owner, found, LATELY)
        except CacheUnavailable:
            # Fails open: without a report, alerts are not slowed down.
            self.metrics.outages.labels("cache").inc()


def p99(found: list[timedelta]) -> timedelta:
    """Return the 99th percentile: of a hundred durations, the second longest."""
    return sorted(found)[(len(found) - 1) * 99 // 100]


# Page audits: a sample of inbox pages is recomputed after the response was sent.

LOGGER = logging.getLogger("notifier.api")

ONE_IN = 200
"""Openings per audit. This adds 0.5 % reads. A fault in 1 % of the openings is found within 20,000 openings."""
APART = timedelta(seconds=0.25)
"""Delay before an audit. The response is sent by then, and a process runs at most four audits a second."""


class PageAudit(Protocol):
    async def compare(self, opened: OpenedInbox) -> None:
        """Recompute the page and count a difference. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Auditing:
    """Audits a sample of openings, one at a time. One instance per event loop.

    The first opening is audited, so that a process with little traffic is checked too.
    """

    audit: PageAudit
    pause: Pause = asyncio.sleep
    passed_over: int = ONE_IN
    going: "asyncio.Task[None] | None" = None

    def observe(self, opened: OpenedInbox) -> None:
        self.passed_over += 1
        if self.passed_over < ONE_IN or (self.going is not None and not self.going.done()):
            return
        self.passed_over = 0
        self.going = asyncio.create_task(self._run(opened))

    async def _run(self, opened: OpenedInbox) -> None:
        await self.pause(APART.total_seconds())
        try:
            await self.audit.compare(opened)
        except Unavailable:  # fails open: a later opening will be audited
            return
        except Exception:  # no request waits for the audit, so its errors are only logged
            LOGGER.exception("An audit failed")
