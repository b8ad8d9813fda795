"""Auditing: a few of the tab's openings are computed again, after their answers have gone."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from notifier.api.background.activity_recorder import Pause
from notifier.domain.errors import Unavailable
from notifier.flow.inbox.page import Opened

LOGGER = logging.getLogger("notifier.api")

ONE_IN = 200
"""Openings: half a percent more reads, and a fault that shows in one opening of a hundred is found within 20,000."""
APART = timedelta(seconds=0.25)
"""At most four a second in a process, however many open their tabs; by then the answer has gone."""


class PageAudit(Protocol):
    async def compare(self, opened: Opened) -> None:
        """Compute the answer again and count a difference. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Auditing:
    """For one loop, one audit at a time. The first opening is audited: a process with few has been checked too."""

    audit: PageAudit
    pause: Pause = asyncio.sleep
    passed_over: int = ONE_IN
    going: "asyncio.Task[None] | None" = None

    def observe(self, opened: Opened) -> None:
        self.passed_over += 1
        if self.passed_over < ONE_IN or (self.going is not None and not self.going.done()):
            return
        self.passed_over = 0
        self.going = asyncio.create_task(self._run(opened))

    async def _run(self, opened: Opened) -> None:
        await self.pause(APART.total_seconds())
        try:
            await self.audit.compare(opened)
        except Unavailable:  # fails open: another opening will do
            return
        except Exception:  # the audit's own mistake is for the log; nobody waits for it
            LOGGER.exception("An audit failed")
