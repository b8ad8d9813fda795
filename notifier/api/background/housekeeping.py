"""Python's cyclic collector in an API process: it never walks through what is cached.

A full collection of 2,000 cached viewers takes 0.3 s, in which nobody is answered. Almost nothing here is cyclic: what
is cached is freed when it leaves its cache.
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
"""Objects in a young collection, and young ones in a middle collection: 2,000 objects take about 3 ms."""
LOOKS_EVERY = timedelta(minutes=1)
FULL_AFTER = 60
"""Looks. For what became cyclic garbage after it was set aside; earlier where twice as much was set aside as after the
last time."""


def keep_pauses_short(sleep: Callable[[float], None] = time.sleep) -> None:
    """Set aside whatever survives a middle collection, and collect everything now and then. For one call a process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE)
    gc.callbacks.append(set_survivors_aside)
    threading.Thread(target=_collect_all, args=(sleep,), name="collector", daemon=True).start()


def set_survivors_aside(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] >= 1:
        gc.freeze()


def _collect_all(sleep: Callable[[float], None]) -> None:
    looks, kept = 0, gc.get_freeze_count()
    while True:
        sleep(LOOKS_EVERY.total_seconds())
        looks += 1
        if looks >= FULL_AFTER or gc.get_freeze_count() > 2 * kept:
            gc.unfreeze()
            gc.collect()
            looks, kept = 0, gc.get_freeze_count()


# Timing: how long people wait for a page, told about once a second to those who send alerts.

LATELY = timedelta(seconds=5)
"""As long a page counts, and as long a word that is told."""
FEWEST = 20
"""Pages: of fewer one slow page, of whoever comes first, would speak for all."""
MOST = 4_096
"""The latest; some 300 kB, and half a millisecond each second."""
TOLD_EVERY = 1.0
"""Seconds, while anybody opens pages."""


@dataclass(slots=True, kw_only=True)
class Timing:
    """For one loop. No page waits for Redis."""

    tabs: TabReport
    owner: str
    """Name of this process in the report."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    pause: Pause = asyncio.sleep
    pages: "deque[tuple[datetime, timedelta]]" = field(default_factory=lambda: deque(maxlen=MOST))
    """When they were answered, and how long that took."""
    untold: bool = False
    going: "asyncio.Task[None] | None" = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Around the making of a page, also of one that fails."""
        began = self.clock.now()
        try:
            yield
        finally:
            now = self.clock.now()
            self.pages.append((now, now - began))
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
                await self._tell(p99([took for _, took in self.pages]))

    async def _tell(self, found: timedelta) -> None:
        try:
            await self.threads.run(self.tabs.tell, self.owner, found, LATELY)
        except CacheUnavailable:
            # Fails open: what nobody is told of slows no alert.
            self.metrics.outages.labels("cache").inc()


def p99(found: list[timedelta]) -> timedelta:
    """Of a hundred the second slowest: one in a hundred may be slower."""
    return sorted(found)[(len(found) - 1) * 99 // 100]


# Auditing: a few of the tab's openings are computed again, after their answers have gone.

LOGGER = logging.getLogger("notifier.api")

ONE_IN = 200
"""Openings: half a percent more reads, and a fault that shows in one opening of a hundred is found within 20,000."""
APART = timedelta(seconds=0.25)
"""At most four a second in a process, however many open their tabs; by then the answer has gone."""


class PageAudit(Protocol):
    async def compare(self, opened: OpenedInbox) -> None:
        """Compute the answer again and count a difference. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Auditing:
    """For one loop, one audit at a time. The first opening is audited: a process with few has been checked too."""

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
        except Unavailable:  # fails open: another opening will do
            return
        except Exception:  # the audit's own mistake is for the log; nobody waits for it
            LOGGER.exception("An audit failed")
