"""Reconciler: completes interrupted publishing, repairs the pull index, and verifies totals.

Lost slices need no reconciler: the dispatcher re-queues them.
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
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.recipient_totals_and_progress import RecipientTotals, recipient_totals
from notifier.domain.errors import OUTAGES, CacheUnavailable, DiskFull
from notifier.domain.ids import BurstKey, Subject
from notifier.flow.leadership import Leadership
from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.metrics import Metrics
from notifier.ports.audience import AudienceSnapshots
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.event_log_and_dead_letters import EventLog
from notifier.ports.inbox import InboxPosition, InboxStore
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.moderation_and_retractions import HeldMentions
from notifier.ports.pull_index import PullIndex

LOGGER = logging.getLogger("notifier.reconciler")

HEADS_PER_ROUND = 100
"""Maximum number of heads with a non-empty outbox that a round publishes."""
SHARDS_PER_READ = 64
EXPIRED_ROWS_PER_ROUND = 5_000
LOG_RETENTION = timedelta(days=1)
"""How long processed log records are kept, for the investigation of incidents."""
REBUILD_WINDOW = INBOX_WINDOW
"""How far back a rebuilt pull index reaches. Older bursts are read from the store."""
BURSTS_PER_PAGE = 1_000
"""Maximum bursts of a page. A page has about a megabyte, and locks the index for some milliseconds."""
COMPARISON_OVERLAP = timedelta(seconds=10)
"""How far each comparison reaches back before the start of the previous one.

A burst becomes readable within a second of its opening time, or gets a new opening time. The other nine seconds cover
a stalled machine.
"""
HELD_COUNT_INTERVAL = timedelta(minutes=1)
"""Interval for counting held mentions. Counting many takes long, and operators need no newer number."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    publisher: Publisher
    heads: Heads
    recent_bursts: RecentBursts
    pull: PullIndex
    ledger: Ledger
    audience_snapshots: AudienceSnapshots
    inbox: InboxStore
    held_mentions: HeldMentions
    log: EventLog
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    previously_unfinished: set[BurstKey] = field(default_factory=set)
    """Unfinished bursts of the last round. The next round checks the totals of bursts that have left the list since."""
    generation: str | None = None
    """Generation of the pull index at the end of this process's rebuild. An index of another generation is rebuilt."""
    compared_at: datetime | None = None
    """Start of the last comparison or rebuild. Bursts that became readable later may be missing in the index."""
    held_counted_at: datetime | None = None

    def __call__(self) -> None:
        """Run one round. A failed duty is logged. An outage of the store or the log ends the round."""
        with suppress(CacheUnavailable):  # fails open: until the index is complete again, the store is read instead
            self._run_duty("index", self._update_index)
        now = self.clock.now()
        if not self.leadership.is_leader(now):
            return
        duties: dict[str, Callable[[], object]] = {
            "heads": self._publish_heads,
            "totals": self._check_totals,
            "held": partial(self._count_held, now),
            "sweep": partial(self.inbox.delete_expired, now, EXPIRED_ROWS_PER_ROUND),
            "log": partial(self.log.drop_committed, now - LOG_RETENTION),
        }
        full_error: DiskFull | None = None
        for duty, work in duties.items():
            try:
                self._run_duty(duty, work)
            except DiskFull as error:  # continue: the duties "sweep" and "log" free space
                full_error = error
        if full_error:
            raise full_error

    def _run_duty(self, duty: str, work: Callable[[], object]) -> None:
        """Run a duty, and log its failure. Outages are raised: they do not count as a failed duty."""
        try:
            work()
        except OUTAGES:
            raise
        except Exception:
            LOGGER.exception("the reconciler's duty %s failed", duty)
            self.metrics.failed_duties.labels(duty).inc()

    def _update_index(self) -> None:
        """Announce the bursts since the last comparison: a publisher may have crashed, or could not write to Redis.

        After a start of this process, or after Redis lost the index, rebuild the index.
        """
        generation = self.pull.generation()
        # Take the time before reading the store: the comparison may miss bursts that become readable later.
        now = self.clock.now()
        oldest = now - REBUILD_WINDOW
        if generation is None or generation != self.generation or self.compared_at is None:
            self.pull.rebuild(burst_pages(self.recent_bursts, oldest), oldest, now)
            self.generation = self.pull.generation()
        else:
            for page in burst_pages(self.recent_bursts, self.compared_at - COMPARISON_OVERLAP):
                self.pull.announce(page)
            self.pull.record_comparison(oldest, now)
        self.compared_at = now

    def _publish_heads(self) -> None:
        self._publish_subjects(self.heads.unpublished(HEADS_PER_ROUND))

    def _publish_subjects(self, subjects: Collection[Subject]) -> None:
        """Publish the heads together, or one by one if that fails: an unreadable head must not block other heads."""
        try:
            self.publisher.finish_publishing(subjects)
        except OUTAGES:
            raise
        except Exception:
            for subject in subjects:
                self._run_duty("heads", partial(self.publisher.finish_publishing, [subject]))

    def _check_totals(self) -> None:
        unfinished = set(self.ledger.unfinished_bursts())
        for burst in sorted(self.previously_unfinished - unfinished):
            self._run_duty("totals", partial(self._check_burst, burst))
        self.previously_unfinished.clear()
        self.previously_unfinished.update(unfinished)

    def _count_held(self, now: datetime) -> None:
        if self.held_counted_at is None or now >= self.held_counted_at + HELD_COUNT_INTERVAL:
            self.metrics.held_mentions.set(self.held_mentions.count())
            self.held_counted_at = now

    def _check_burst(self, burst: BurstKey) -> None:
        for totals in self.totals([burst]):
            if not totals.expired and (not totals.is_balanced or totals.in_flight):
                self.metrics.unbalanced_bursts.inc()

    def totals(self, bursts: Sequence[BurstKey]) -> Sequence[RecipientTotals]:
        now = self.clock.now()
        return [
            recipient_totals(progress, self._snapshot_counts(progress), throttle_ids=(), now=now)
            for progress in self.ledger.read(bursts).values()
        ]

    def _snapshot_counts(self, progress: BurstProgress) -> Iterator[SnapshotCounts]:
        """Yield the counts of all audience snapshots of a burst, reading SHARDS_PER_READ shards at a time."""
        for first, last in progress.plan.shard_spans:
            for start in range(first, last + 1, SHARDS_PER_READ):
                shards = range(start, min(start + SHARDS_PER_READ, last + 1))
                yield from self.audience_snapshots.read_counts(progress.plan.burst, shards).values()


def burst_pages(recent_bursts: RecentBursts, since: datetime) -> Iterator[Sequence[Burst]]:
    """Yield pages of the bursts opened since `since`, newest first. One page is in memory at a time."""
    position = None
    while page := recent_bursts.opened_since(since, position, BURSTS_PER_PAGE):
        yield page
        position = InboxPosition(page[-1].opened_at, page[-1].key)
