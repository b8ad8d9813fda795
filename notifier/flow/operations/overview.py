"""Overview for operators, from the ledger, the store and the cache.

An `Overview` remembers its last read. The mention rate is the growth of the bursts between two reads. The delivery rate
includes bursts that have finished since the last read. The audience snapshots of a large burst are counted over several
reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier import topics
from notifier.domain.audience.activity import ActiveSetFreshness, active_set_freshness
from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.backoff_due_times_alert_ages import is_due
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.dead_letter_limit import LaneStop
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.delivery.recipient_totals_and_progress import (
    DeliveryRate,
    RecipientTotals,
    TierProgress,
    delivery_rate,
    recipient_totals,
    tier_progress,
)
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import RAMP, Throttle
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Lane
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.flow.dead_letter_lane_stops import stopped_lanes
from notifier.ports.audience import ActiveHours, AudienceSnapshots
from notifier.ports.bursts import RecentBursts
from notifier.ports.event_log_and_dead_letters import DeadLetterTallies, EventLog
from notifier.ports.leases_queues_throttles_clock import Clock, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import DeferredBursts, Ledger
from notifier.ports.pull_index import PullIndex
from notifier.ports.push import CircuitReport
from notifier.ports.recent_events_and_load_limits import BacklogReport, Backpressure

MAX_LISTED_AGE = timedelta(hours=1)
MAX_LISTED_BURSTS = 256
"""Maximum number of newest bursts that a read lists. The mention rate is computed from their growth."""
NEWLY_WATCHED_BURSTS = 32
"""Number of newest unfinished bursts that each read adds to the watched ones. Reading the progress of a burst of 200
million followers takes 5 ms."""
MAX_SHOWN_BURSTS = 8
DEFERRED_COUNT_INTERVAL = timedelta(seconds=10)
"""Interval between counts of the deferred bursts. Their number changes mostly at quarter hours."""
RATE_WINDOW = timedelta(seconds=3)
"""Time over which the delivery rate is measured. Slices take a quarter of a second, so a shorter time would give an
uneven rate."""
SNAPSHOTS_PER_READ = 512
"""Maximum audience snapshots counted per read; they take 70 ms. Three reads count a burst of 200 million followers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstOverview:
    """The burst that is shown in detail: the newest unfinished candidate, or the newest one if none is unfinished.

    Candidates are the listed bursts of the celebrity lane that are not pull-only, or all listed bursts if there are
    none. Deferred bursts do not count as unfinished.
    """

    burst: Burst
    followers: int
    shard_count: int
    tiers: Sequence[TierProgress]
    totals: RecipientTotals
    counted_shards: int
    """Number of shards in `totals`. The audience snapshots of other shards are not taken or not counted yet."""
    is_finished: bool
    deferred_until: datetime | None
    """When the first deferred slice resumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """State of the cache (Redis). While it does not answer, all other fields are empty or None."""

    is_available: bool
    generation: str | None
    """Generation of the pull index; None after the cache was emptied, until the rebuild."""
    backlogs: Mapping[Pool, PoolBacklog]
    backpressure: float | None
    open_circuits: Mapping[str, OpenCircuit]
    """Open circuits, by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewSnapshot:
    at: datetime
    mentions_per_second: float
    unfinished_burst_count: int
    """Number of unfinished bursts, without the deferred ones."""
    deferred_burst_count: int
    bursts: Sequence[Burst]
    """The newest bursts."""
    shown_burst: BurstOverview | None
    """The burst that is shown in detail; None without bursts, or while that burst has no plan."""
    rate: DeliveryRate
    throttles: Sequence[Throttle]
    """Throttles in force or ramping."""
    stopped_lanes: Mapping[str, LaneStop]
    cache: CacheState

    def seconds_behind(self, pool: Pool) -> float | None:
        """Return the age in seconds of the pool's oldest work; 0 if there is none.

        None if the backlog is unknown, or has no opening time, because a throttle holds all its slices.
        """
        backlog = self.cache.backlogs.get(pool)
        if backlog is None or (backlog.slices and backlog.oldest_opened_at is None):
            return None
        return (self.at - backlog.oldest_opened_at).total_seconds() if backlog.oldest_opened_at else 0.0


@dataclass(slots=True, kw_only=True)
class Overview:
    ledger: Ledger
    deferred_bursts: DeferredBursts
    recent_bursts: RecentBursts
    audience_snapshots: AudienceSnapshots
    throttles: Throttles
    lane_tallies: DeadLetterTallies
    backlog_report: BacklogReport
    backpressure: Backpressure
    circuit_report: CircuitReport
    pull: PullIndex
    clock: Clock
    mention_counts: dict[BurstKey, int] = field(default_factory=dict)
    """Number of mentions of each burst that was listed at the last read."""
    read_at: datetime | None = None
    watched_bursts: frozenset[BurstKey] = frozenset()
    """Bursts that the last read found unfinished. The next read includes those that have finished since, for the
    delivery rate."""
    deferred_counted_at: datetime | None = None
    deferred_count: int = 0
    counted_burst: BurstKey | None = None
    """Burst whose audience snapshots are counted: the one that is shown in detail."""
    snapshot_counts: dict[int, SnapshotCounts] = field(default_factory=dict)
    """Counts of the audience snapshots of `counted_burst`, by shard."""

    def read(self) -> OverviewSnapshot:
        """Read the overview. While the cache is down, the rest is still reported."""
        now = self.clock.now()
        listed = [
            b
            for b in self.recent_bursts.opened_since(now - MAX_LISTED_AGE, None, MAX_LISTED_BURSTS)
            if b.key.subject.kind is Kind.MENTION
        ]
        unfinished_bursts = self.ledger.unfinished_bursts()
        unfinished_keys = frozenset(unfinished_bursts)
        shown = _choose_burst(listed, unfinished_keys)
        to_read = dict.fromkeys(
            [*unfinished_bursts[-NEWLY_WATCHED_BURSTS:], *self.watched_bursts, *([shown.key] if shown else [])]
        )
        progress_by_burst = self.ledger.read(to_read)
        # Do not watch deferred bursts: they get no entries until they wake, often hours later.
        self.watched_bursts = frozenset(
            key for key, progress in progress_by_burst.items() if not progress.is_finished and key in unfinished_keys
        )
        throttles = [t for t in self.throttles.ending_after(now - RAMP) if t.is_active(now) or t.is_ramping(now)]
        return OverviewSnapshot(
            at=now,
            mentions_per_second=self._mention_rate(listed, now),
            unfinished_burst_count=len(unfinished_bursts),
            deferred_burst_count=self._count_deferred(now),
            bursts=listed[:MAX_SHOWN_BURSTS],
            shown_burst=self._burst_overview(shown, progress_by_burst.get(shown.key), throttles, now)
            if shown
            else None,
            rate=delivery_rate(progress_by_burst.values(), now=now, period=RATE_WINDOW),
            throttles=throttles,
            stopped_lanes=stopped_lanes(self.lane_tallies),
            cache=self._read_cache(),
        )

    def _count_deferred(self, now: datetime) -> int:
        if is_due(self.deferred_counted_at, DEFERRED_COUNT_INTERVAL, now):
            self.deferred_counted_at, self.deferred_count = now, self.deferred_bursts.count()
        return self.deferred_count

    def _mention_rate(self, listed: Sequence[Burst], now: datetime) -> float:
        previous_counts, previous_time = self.mention_counts, self.read_at
        self.mention_counts, self.read_at = {burst.key: burst.count for burst in listed}, now
        if previous_time is None or now <= previous_time:
            return 0.0
        growth = sum(count - previous_counts.get(key, 0) for key, count in self.mention_counts.items())
        return max(0, growth) / (now - previous_time).total_seconds()

    def _burst_overview(
        self, burst: Burst, progress: BurstProgress | None, throttles: Sequence[Throttle], now: datetime
    ) -> BurstOverview | None:
        if progress is None:  # the burst is readable before its plan
            return None
        throttle_ids = frozenset(throttle.id for throttle in throttles)
        self._count_snapshots(progress)
        return BurstOverview(
            burst=burst,
            followers=progress.plan.followers,
            shard_count=progress.plan.shard_count,
            tiers=tier_progress(progress, throttle_ids=throttle_ids, now=now),
            totals=recipient_totals(progress, self.snapshot_counts.values(), throttle_ids=throttle_ids, now=now),
            counted_shards=len(self.snapshot_counts),
            is_finished=progress.is_finished,
            deferred_until=_first_resume_time(progress.slice_states.values(), now),
        )

    def _count_snapshots(self, progress: BurstProgress) -> None:
        """Read the counts of up to SNAPSHOTS_PER_READ audience snapshots of the burst that are not counted yet."""
        key = progress.plan.burst
        if key != self.counted_burst:
            self.counted_burst, self.snapshot_counts = key, {}
        shards = (shard for first, last in progress.plan.shard_spans for shard in range(first, last + 1))
        missing = [shard for shard in shards if shard not in self.snapshot_counts]
        for start in range(0, len(missing), SNAPSHOTS_PER_READ):
            counts = self.audience_snapshots.read_counts(key, missing[start : start + SNAPSHOTS_PER_READ])
            self.snapshot_counts |= counts
            if counts:  # the next call counts further snapshots
                return

    def _read_cache(self) -> CacheState:
        try:
            return CacheState(
                is_available=True,
                generation=self.pull.generation(),
                backlogs=self.backlog_report.read(),
                backpressure=self.backpressure.level(),
                open_circuits=self.circuit_report.read(),
            )
        except CacheUnavailable:  # fails open: the rest of the overview does not need the cache
            return CacheState(is_available=False, generation=None, backlogs={}, backpressure=None, open_circuits={})


def _choose_burst(listed: Sequence[Burst], unfinished_keys: frozenset[BurstKey]) -> Burst | None:
    candidates = [burst for burst in listed if burst.lane is Lane.CELEBRITY and not burst.pull_only] or listed
    return next((burst for burst in candidates if burst.key in unfinished_keys), next(iter(candidates), None))


def _first_resume_time(slice_states: Iterable[SliceState], now: datetime) -> datetime | None:
    return min((s.deferred_until for s in slice_states if s.deferred_until and s.is_deferred(now)), default=None)


# Freshness: age of the data from which tiers are computed, and records that the indexers have not finished.

MAX_COUNTED_RECORDS = 1_000
AUDIENCE_STREAMS = (topics.FOLLOWS, topics.USERS, topics.ACTIVITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceFreshness:
    activity: ActiveSetFreshness
    rolled_up_at: datetime | None
    """When activity was last rolled up into the active sets; None if that is unknown."""
    unprocessed_records: Mapping[str, int]
    """Number of records of each stream that the indexers have not finished, counted up to MAX_COUNTED_RECORDS."""


def audience_freshness(log: EventLog, hours: ActiveHours, clock: Clock, interval: timedelta) -> AudienceFreshness:
    activity, rolled_up_at = active_set_state(hours, clock, interval)
    groups = topics.GROUPS
    unprocessed_records = {
        stream: sum(1 for _ in log.read_uncommitted(stream, groups[stream], MAX_COUNTED_RECORDS))
        for stream in AUDIENCE_STREAMS
    }
    return AudienceFreshness(activity=activity, rolled_up_at=rolled_up_at, unprocessed_records=unprocessed_records)


def active_set_state(
    hours: ActiveHours, clock: Clock, interval: timedelta
) -> tuple[ActiveSetFreshness, datetime | None]:
    """Return how fresh the active sets are, and when they were last rolled up.

    `interval` is the interval of the roll-up. Zero means that the roll-up is off, so the active sets do not change.
    """
    rolled_up_at = None
    with suppress(CacheUnavailable):  # fails open: without the cache there is no roll-up, and its time is unknown
        rolled_up_at = hours.last_roll_up() if interval else None
    return active_set_freshness(rolled_up_at, clock.now(), interval), rolled_up_at
