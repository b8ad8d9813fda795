"""Operator overview from the ledger, the store, and the cache where only it knows.

One read costs a few reads of ledger accounts, whatever the number of followers. Audience snapshots are read once,
because they never change. Most numbers do not depend on earlier reads. There are three exceptions. The mention rate
compares two reads, and the pace includes bursts that had work left at the read before. The snapshots of a large burst
are counted over several reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier import topics
from notifier.domain.audience.activity import ActiveSetFreshness, active_set_freshness
from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.accounting import (
    DeliveryRate,
    RecipientTotals,
    TierProgress,
    delivery_rate,
    recipient_totals,
    tier_progress,
)
from notifier.domain.delivery.backlog import PoolBacklog
from notifier.domain.delivery.dead_letter_limit import LaneStop
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import RAMP, Throttle
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Lane
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.domain.timing import is_due
from notifier.flow.lane_guard import stopped_lanes
from notifier.ports.audience import ActiveHours
from notifier.ports.bursts import RecentBursts
from notifier.ports.cache import BacklogReport, Backpressure
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.event_log import EventLog, LaneTallies
from notifier.ports.inbox import AudienceSnapshots
from notifier.ports.ledger import DeferredBursts, Ledger
from notifier.ports.pull_index import PullIndex
from notifier.ports.push import CircuitReport

MAX_BURST_AGE = timedelta(hours=1)
MAX_LISTED_BURSTS = 256
"""Newest bursts that are read. Their growth is the rate of mentions."""
MAX_WATCHED_BURSTS = 32
"""Newest open bursts whose ledger accounts are read. A burst of 200 million followers takes 5 ms."""
MAX_SHOWN_BURSTS = 8
COUNT_INTERVAL = timedelta(seconds=10)
"""Interval between two counts of deferred bursts: their number changes by the quarter of an hour."""
RATE_WINDOW = timedelta(seconds=3)
"""A slice is a quarter of a second of work. Over this interval the rate is smooth, and still current."""
SNAPSHOTS_PER_READ = 512
"""Audience snapshots counted per read: 70 ms. A burst of 200 million followers is fully counted after three reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstOverview:
    """The burst shown: the newest with work left, or else the newest; among the large ones, if there are any."""

    burst: Burst
    followers: int
    shards: int
    tiers: Sequence[TierProgress]
    totals: RecipientTotals
    counted_shards: int
    """Shards whose audience snapshot is in the books. The others have no snapshot yet, or it is not counted yet."""
    is_finished: bool
    deferred_until: datetime | None
    """When the first slice goes on that waits for the end of quiet hours, or for a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """State of the disposable cache. While the cache does not answer, all fields are empty or None."""

    is_available: bool
    generation: str | None
    """A new value means that the cache was emptied and rebuilt. None: emptied and not rebuilt yet."""
    backlogs: Mapping[Pool, PoolBacklog]
    backpressure: float | None
    open_circuits: Mapping[str, OpenCircuit]
    """Providers and push services whose circuit is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewSnapshot:
    at: datetime
    mentions_per_second: float
    open_bursts: int
    deferred_bursts: int
    """Deferred bursts, in addition to the open ones. They wait for the end of quiet hours, or for a provider."""
    bursts: Sequence[Burst]
    """The newest bursts."""
    running: BurstOverview | None
    rate: DeliveryRate
    throttles: Sequence[Throttle]
    """Throttles in force or ramping."""
    stopped_lanes: Mapping[str, LaneStop]
    """Lanes that are stopped by their dead-letter limit."""
    cache: CacheState

    def seconds_behind(self, pool: Pool) -> float | None:
        """Return the pool's delay. None if no delay is reported, or a throttle holds the remaining work."""
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
    lane_tallies: LaneTallies
    backlog_report: BacklogReport
    backpressure: Backpressure
    circuit_report: CircuitReport
    pull: PullIndex
    clock: Clock
    counts: dict[BurstKey, int] = field(default_factory=dict)
    """Mentions of the bursts listed at the last read."""
    read_at: datetime | None = None
    watched: frozenset[BurstKey] = frozenset()
    """Bursts with work left at the last read: their last ledger entries count, too."""
    counted_at: datetime | None = None
    deferred_count: int = 0
    """Deferred bursts at `counted_at`."""
    counted_burst: BurstKey | None = None
    snapshot_counts: dict[int, SnapshotCounts] = field(default_factory=dict)
    """Counted audience snapshots of the burst shown, by shard."""

    def read(self) -> OverviewSnapshot:
        """Read the overview once. Raises StoreUnavailable; without the cache everything else is still reported."""
        now = self.clock.now()
        listed = [
            b
            for b in self.recent_bursts.opened_since(now - MAX_BURST_AGE, None, MAX_LISTED_BURSTS)
            if b.key.subject.kind is Kind.MENTION
        ]
        unsettled = self.ledger.open_bursts()
        unsettled_now = frozenset(unsettled)
        shown = _shown(listed, unsettled_now)
        wanted = dict.fromkeys([*unsettled[-MAX_WATCHED_BURSTS:], *self.watched, *([shown.key] if shown else [])])
        progress_by_burst = self.ledger.read(wanted)
        # Deferred bursts get no more entries: they would be watched all night.
        self.watched = frozenset(
            k for k, progress in progress_by_burst.items() if not progress.is_finished and k in unsettled_now
        )
        throttles = [t for t in self.throttles.since(now - RAMP) if t.is_active(now) or t.is_ramping(now)]
        return OverviewSnapshot(
            at=now,
            mentions_per_second=self._rate(listed, now),
            open_bursts=len(unsettled),
            deferred_bursts=self._count_deferred(now),
            bursts=listed[:MAX_SHOWN_BURSTS],
            running=self._running(shown, progress_by_burst.get(shown.key), throttles, now) if shown else None,
            rate=delivery_rate(progress_by_burst.values(), now=now, over=RATE_WINDOW),
            throttles=throttles,
            stopped_lanes=stopped_lanes(self.lane_tallies),
            cache=self._cache(),
        )

    def _count_deferred(self, now: datetime) -> int:
        if is_due(self.counted_at, COUNT_INTERVAL, now):
            self.counted_at, self.deferred_count = now, self.deferred_bursts.count()
        return self.deferred_count

    def _rate(self, listed: Sequence[Burst], now: datetime) -> float:
        before, since = self.counts, self.read_at
        self.counts, self.read_at = {burst.key: burst.count for burst in listed}, now
        if since is None or now <= since:
            return 0.0
        grown = sum(count - before.get(key, 0) for key, count in self.counts.items())
        return max(0, grown) / (now - since).total_seconds()

    def _running(
        self, burst: Burst, progress: BurstProgress | None, throttles: Sequence[Throttle], now: datetime
    ) -> BurstOverview | None:
        if progress is None:  # the burst is readable before its plan
            return None
        holding = frozenset(throttle.id for throttle in throttles)
        self._count_snapshots(progress)
        return BurstOverview(
            burst=burst,
            followers=progress.plan.followers,
            shards=progress.plan.shards,
            tiers=tier_progress(progress, throttles=holding, now=now),
            totals=recipient_totals(progress, self.snapshot_counts.values(), throttles=holding, now=now),
            counted_shards=len(self.snapshot_counts),
            is_finished=progress.is_finished,
            deferred_until=_waits_until(progress.slice_states.values(), now),
        )

    def _count_snapshots(self, progress: BurstProgress) -> None:
        key = progress.plan.burst
        if key != self.counted_burst:
            self.counted_burst, self.snapshot_counts = key, {}
        shards = (shard for first, last in progress.plan.ranges for shard in range(first, last + 1))
        missing = [shard for shard in shards if shard not in self.snapshot_counts]
        for start in range(0, len(missing), SNAPSHOTS_PER_READ):
            tallies = self.audience_snapshots.read_counts(key, missing[start : start + SNAPSHOTS_PER_READ])
            self.snapshot_counts |= tallies
            if tallies:  # the next read goes on from here
                return

    def _cache(self) -> CacheState:
        try:
            return CacheState(
                is_available=True,
                generation=self.pull.generation(),
                backlogs=self.backlog_report.read(),
                backpressure=self.backpressure.level(),
                open_circuits=self.circuit_report.read(),
            )
        except CacheUnavailable:  # fails open: the rest of the overview needs none
            return CacheState(is_available=False, generation=None, backlogs={}, backpressure=None, open_circuits={})


def _shown(listed: Sequence[Burst], unsettled: frozenset[BurstKey]) -> Burst | None:
    large = [burst for burst in listed if burst.lane is Lane.CELEBRITY and not burst.pull_only] or listed
    return next((burst for burst in large if burst.key in unsettled), next(iter(large), None))


def _waits_until(slice_states: Iterable[SliceState], now: datetime) -> datetime | None:
    return min((s.deferred_until for s in slice_states if s.deferred_until and s.is_deferred(now)), default=None)


# Freshness: age of the data that tiers are computed from, and accepted records that are not in it yet.

MAX_COUNTED_RECORDS = 1_000
"""Maximum records counted per stream."""
AUDIENCE_STREAMS = (topics.FOLLOWS, topics.USERS, topics.ACTIVITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceFreshness:
    activity: ActiveSetFreshness
    rolled_up_at: datetime | None
    """When active users last came into the sets; None if that is unknown."""
    waiting: Mapping[str, int]
    """Accepted records per stream that are not in rows and bitmaps yet."""


def audience_freshness(log: EventLog, hours: ActiveHours, clock: Clock, interval: timedelta) -> AudienceFreshness:
    """Return the age of the audience data. Raises LogUnavailable."""
    publication, at = active_set_state(hours, clock, interval)
    groups = topics.GROUPS
    waiting = {
        stream: sum(1 for _ in log.read_uncommitted(stream, groups[stream], MAX_COUNTED_RECORDS))
        for stream in AUDIENCE_STREAMS
    }
    return AudienceFreshness(activity=publication, rolled_up_at=at, waiting=waiting)


def active_set_state(
    hours: ActiveHours, clock: Clock, interval: timedelta
) -> tuple[ActiveSetFreshness, datetime | None]:
    """Return how the active sets are published, and when they were last rolled up.

    `every` is the interval of the roll-up; zero if tiers are frozen as they were loaded.
    """
    last = None
    with suppress(CacheUnavailable):  # without the cache no roll-up is known, and none is done
        last = hours.last_roll_up() if interval else None
    return active_set_freshness(last, clock.now(), interval), last
