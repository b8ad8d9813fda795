"""Warm-up: read the inboxes of users who may open them soon."""

import asyncio
from dataclasses import dataclass, field

from notifier.domain.errors import NotifierError
from notifier.domain.ids import UserId
from notifier.flow.inbox.inbox import Inbox
from notifier.metrics import Metrics

MAX_CONCURRENT_READS = 4
"""Maximum concurrent warm-up reads: they must not delay users who wait for their inbox."""
MAX_WAITING_USERS = 1_000
"""Maximum queued users. Further users are dropped: their first page is as slow as without a warm-up."""


@dataclass(slots=True, kw_only=True)
class WarmUp:
    """Queue of users, and tasks that read their inboxes. No request waits for it. One instance per event loop."""

    inbox: Inbox
    metrics: Metrics
    _waiting: dict[UserId, None] = field(default_factory=dict)
    """Queued users in order of arrival, each once."""
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    def add(self, user: UserId) -> None:
        if len(self._waiting) >= MAX_WAITING_USERS or not self.inbox.breaker.is_closed:
            self._count("dropped")
            return
        self._waiting[user] = None
        if len(self._tasks) < MAX_CONCURRENT_READS:
            task = asyncio.ensure_future(self._read_ahead())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _read_ahead(self) -> None:
        while self._waiting:
            user = next(iter(self._waiting))
            del self._waiting[user]
            if self.inbox.viewers.get(user) is not None:
                self._count("known")
                continue
            try:
                await self.inbox.page(user)
            except NotifierError:  # no user waits for this page
                self._count("failed")
            else:
                self._count("done")

    def _count(self, result: str) -> None:
        self.metrics.inbox_warm_ups.labels(result).inc()
