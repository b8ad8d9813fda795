"""The reconciler: finishes what the dead left half done, keeps the pull index true to the store, and checks the sums.

Lost slices need no reconciler: the dispatcher queues whatever has an expired claim.
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
"""Nothing reads a record that is done; a day of them helps whoever looks into what happened."""
REBUILT_FROM = INBOX_WINDOW
"""How far back the pull index reaches after a rebuild; older pages are the store's."""
BURSTS_AT_ONCE = 1_000
"""In a page of a rebuild: about a megabyte, and some milliseconds of the index's lock."""
COMPARED_WITH_OVERLAP = timedelta(seconds=10)
"""A burst becomes readable within a second of its opening, or is re-stamped; the rest is for a machine that halts."""
COUNTED_EVERY = timedelta(minutes=1)
"""What is held: people decide over it, and a flood of it is a long read."""


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
    """Bursts that were open in the last round: those gone from the list since are checked."""
    generation: str | None = None
    """The pull index that this process has rebuilt."""
    compared_at: datetime | None = None
    """At this moment nothing that the store held was missing in it."""
    counted_at: datetime | None = None
    """When it was told last how many mentions are held."""

    def __call__(self) -> None:
        """One round. An outage ends it; whatever else fails, fails alone: the other duties are done all the same."""
        with suppress(CacheUnavailable):  # fails open: until the index stands again, the store is read instead
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
            except Full as error:  # those that make room come last
                full = error
        if full:
            raise full

    def _alone(self, duty: str, work: Callable[[], object]) -> bool:
        """Whether it succeeded. Raises OUTAGES, which are nobody's fault."""
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
        """Announces what the store holds and the index may lack; all of it after a wipe, and at the start.

        Coordinators announce as they publish. This is for those who died before, and for what Redis didn't take.
        """
        generation = self.pull.generation()
        now = self.clock.now()  # before the store is read: of what becomes readable later nothing is claimed
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
        """One that can't be finished, because its head can't be read, keeps none of the others waiting."""
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
        """A few shards' seals in memory at a time, whatever the number of followers."""
        for first, last in account.plan.ranges:
            for start in range(first, last + 1, SHARDS_AT_ONCE):
                run = range(start, min(start + SHARDS_AT_ONCE, last + 1))
                yield from self.seals.tallies(account.plan.burst, run).values()


def pages(recent: RecentBursts, since: datetime) -> Iterator[Sequence[Burst]]:
    """Newest first; one is in memory at a time, however many there are."""
    behind = None
    while page := recent.since(since, behind, BURSTS_AT_ONCE):
        yield page
        behind = InboxPosition(page[-1].opened_at, page[-1].key)
