"""The reconciler: finishes what the dead left half done, rebuilds the pull index after a wipe, and checks the sums.

Lost slices need no reconciler: the dispatcher queues whatever has an expired claim.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.domain.block import INBOX_WINDOW
from notifier.domain.books import Books, books
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ledger import Account
from notifier.domain.seal import Tally
from notifier.domain.subject import BurstKey
from notifier.flow.coordinator import Coordinator
from notifier.flow.leadership import Leadership
from notifier.ports.bursts import RecentBursts
from notifier.ports.clock import Clock
from notifier.ports.heads import Heads
from notifier.ports.inbox import Inbox
from notifier.ports.ledger import Ledger
from notifier.ports.log import EventLog
from notifier.ports.pull import PullIndex
from notifier.ports.seals import Seals
from notifier.telemetry import Metrics

HEADS_AT_ONCE = 100
SHARDS_AT_ONCE = 64
SWEPT_AT_ONCE = 5_000
LOG_KEPT_FOR = timedelta(days=1)
"""Nothing reads a record that is done; a day of them helps whoever looks into what happened."""
REBUILT_FROM = INBOX_WINDOW
"""How far back the pull index reaches after a rebuild; older pages are the store's."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    coordinator: Coordinator
    heads: Heads
    recent: RecentBursts
    pull: PullIndex
    ledger: Ledger
    seals: Seals
    inbox: Inbox
    log: EventLog
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    unsettled: set[BurstKey] = field(default_factory=set)
    """Bursts that were open in the last round: those gone from the list since are checked."""
    generation: str | None = None
    """The pull index that this process has rebuilt."""

    def __call__(self) -> None:
        """One round."""
        with suppress(CacheUnavailable):  # fails open: until the index stands again, the store is read instead
            self._rebuild()
        now = self.clock.now()
        if not self.leadership.held(now):
            return
        self.coordinator.finish(self.heads.unpublished(HEADS_AT_ONCE))
        self._check_sums()
        self.inbox.sweep(now, SWEPT_AT_ONCE)
        self.log.forget(now - LOG_KEPT_FOR)

    def _rebuild(self) -> None:
        """After a wipe, and at the start: a coordinator may have died with announcements that Redis didn't take."""
        if (generation := self.pull.generation()) is None or generation != self.generation:
            since = self.clock.now() - REBUILT_FROM
            self.pull.rebuilt(self.recent.since(since), since)
            self.generation = self.pull.generation()

    def _check_sums(self) -> None:
        listed = set(self.ledger.open())
        settled = self.unsettled - listed
        for sums in self.sums(sorted(settled)):
            if not sums.balanced or sums.in_flight:
                self.metrics.unbalanced.inc()
        self.unsettled.clear()
        self.unsettled.update(listed)

    def sums(self, bursts: Sequence[BurstKey]) -> Sequence[Books]:
        now = self.clock.now()
        return [
            books(account, self._tallies(account), throttles=(), now=now)
            for account in self.ledger.read(bursts).values()
        ]

    def _tallies(self, account: Account) -> Iterator[Tally]:
        """A few shards' seals in memory at a time, whatever the number of followers."""
        for first, last in account.plan.ranges:
            for start in range(first, last + 1, SHARDS_AT_ONCE):
                run = range(start, min(start + SHARDS_AT_ONCE, last + 1))
                for seal in self.seals.read(account.plan.burst, run).values():
                    yield seal.tally()
