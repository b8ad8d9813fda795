"""Reconciler: completes interrupted publishing, repairs the pull index, and verifies totals.

Lost slices need no reconciler: the dispatcher re-queues every slice with an expired claim.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from notifier.domain.audience.inbox_rows import INBOX_WINDOW
from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.accounting import Books, books
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.errors import OUTAGES, CacheUnavailable, Full
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.leadership import Leadership
from notifier.flow.sequencing.publisher import Publisher
from notifier.metrics import Metrics
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.coordination import Clock
from notifier.ports.event_log import EventLog
from notifier.ports.inbox import InboxPosition, InboxStore, Seals
from notifier.ports.ledger import Ledger
from notifier.ports.pull_index import PullIndex
from notifier.ports.retractions import Holds

LOGGER = logging.getLogger("notifier.reconciler")

HEADS_AT_ONCE = 100
SHARDS_AT_ONCE = 64
SWEPT_AT_ONCE = 5_000
LOG_KEPT_FOR = timedelta(days=1)
"""Retention of processed log records. Nothing reads them; one day helps to investigate incidents."""
REBUILT_FROM = INBOX_WINDOW
"""How far back a rebuilt pull index reaches. Older pages come from the store."""
BURSTS_AT_ONCE = 1_000
"""Bursts in a page of a rebuild: about a megabyte, and some milliseconds under the index's lock."""
COMPARED_WITH_OVERLAP = timedelta(seconds=10)
"""A burst is readable within a second of its opening, or it is re-stamped. The rest covers a stalled machine."""
COUNTED_EVERY = timedelta(minutes=1)
"""Interval for counting held mentions. Moderators decide about them, and counting many takes long."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    publisher: Publisher
    heads: Heads
    recent: RecentBursts
    pull: PullIndex
    ledger: Ledger
    seals: Seals
    inbox: InboxStore
    holds: Holds
    log: EventLog
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    unsettled: set[BurstKey] = field(default_factory=set)
    """Bursts that were open in the last round. Those closed since then are checked."""
    generation: str | None = None
    """Generation of the pull index that this process has rebuilt."""
    compared_at: datetime | None = None
    """Last time at which the index had everything that the store held."""
    counted_at: datetime | None = None
    """When held mentions were last counted."""

    def __call__(self) -> None:
        """Run one round. An outage ends it; any other failure is contained, and the remaining duties still run."""
        with suppress(CacheUnavailable):  # fails open: until the index is complete again, the store is read instead
            self._alone("index", self._index)
        now = self.clock.now()
        if not self.leadership.held(now):
            return
        duties: dict[str, Callable[[], object]] = {
            "heads": self._finish_heads,
            "sums": self._check_sums,
            "held": partial(self._count_held, now),
            "sweep": partial(self.inbox.sweep, now, SWEPT_AT_ONCE),
            "log": partial(self.log.forget, now - LOG_KEPT_FOR),
        }
        full: Full | None = None
        for name, duty in duties.items():
            try:
                self._alone(name, duty)
            except Full as error:  # the duties that free space come last
                full = error
        if full:
            raise full

    def _alone(self, duty: str, work: Callable[[], object]) -> bool:
        """Run a duty; return whether it succeeded. Raises OUTAGES, which are not the duty's failure."""
        try:
            work()
        except OUTAGES:
            raise
        except Exception:
            LOGGER.exception("the reconciler's duty %s failed", duty)
            self.metrics.unreconciled.labels(duty).inc()
            return False
        return True

    def _index(self) -> None:
        """Announce bursts that the index may lack: all of them at the start and after a wipe.

        Coordinators announce while publishing. This covers crashed coordinators and failed writes to Redis.
        """
        generation = self.pull.generation()
        now = self.clock.now()  # before reading the store: the index claims nothing about what becomes readable later
        oldest = now - REBUILT_FROM
        if generation is None or generation != self.generation or self.compared_at is None:
            self.pull.rebuilt(pages(self.recent, oldest), oldest, now)
            self.generation = self.pull.generation()
        else:
            for page in pages(self.recent, self.compared_at - COMPARED_WITH_OVERLAP):
                self.pull.announce(page)
            self.pull.compared(oldest, now)
        self.compared_at = now

    def _finish_heads(self) -> None:
        self._finish(self.heads.unpublished(HEADS_AT_ONCE))

    def _finish(self, subjects: Collection[Subject]) -> None:
        """Finish the subjects together, or one by one if that fails: an unreadable head must not block the others."""
        try:
            self.publisher.finish(subjects)
        except OUTAGES:
            raise
        except Exception:
            for subject in subjects:
                self._alone("heads", partial(self.publisher.finish, [subject]))

    def _check_sums(self) -> None:
        listed = set(self.ledger.open())
        for burst in sorted(self.unsettled - listed):
            self._alone("sums", partial(self._check, burst))
        self.unsettled.clear()
        self.unsettled.update(listed)

    def _count_held(self, now: datetime) -> None:
        if self.counted_at is None or now >= self.counted_at + COUNTED_EVERY:
            self.metrics.held.set(self.holds.count())
            self.counted_at = now

    def _check(self, burst: BurstKey) -> None:
        for sums in self.sums([burst]):
            if not sums.expired and (not sums.balanced or sums.in_flight):
                self.metrics.unbalanced.inc()

    def sums(self, bursts: Sequence[BurstKey]) -> Sequence[Books]:
        now = self.clock.now()
        return [
            books(account, self._tallies(account), throttles=(), now=now)
            for account in self.ledger.read(bursts).values()
        ]

    def _tallies(self, account: BurstProgress) -> Iterator[SnapshotCounts]:
        """Yield the snapshot counts of all shards, with a few shards in memory at a time."""
        for first, last in account.plan.ranges:
            for start in range(first, last + 1, SHARDS_AT_ONCE):
                run = range(start, min(start + SHARDS_AT_ONCE, last + 1))
                yield from self.seals.tallies(account.plan.burst, run).values()


def pages(recent: RecentBursts, since: datetime) -> Iterator[Sequence[Burst]]:
    """Yield the bursts opened since `since`, newest first, with one page in memory at a time."""
    position = None
    while page := recent.since(since, position, BURSTS_AT_ONCE):
        yield page
        position = InboxPosition(page[-1].opened_at, page[-1].key)
