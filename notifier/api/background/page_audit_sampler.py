"""Page audits: recompute a sample of an API process's answers afterwards."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from notifier.api.background.activity_recorder import Pause
from notifier.domain.errors import Unavailable
from notifier.flow.inbox.page import OpenedInbox

LOGGER = logging.getLogger("notifier.api")

ANSWERS_PER_AUDIT = 200
"""About one in this many answers (pages, badges, new streams) is audited, which adds 0.5 % reads.

A fault in 1 % of the answers is found after 20,000 answers on average.
"""
AUDIT_DELAY = timedelta(seconds=0.25)
"""Delay before an audit. The response has usually been sent by then. The delay also limits audits to four a second."""


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
