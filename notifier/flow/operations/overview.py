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
from notifier.domain.audience.activity import Published, published
from notifier.domain.audience.snapshot import SnapshotCounts
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.accounting import Books, DeliveryRate, Filling, books, filling, pace
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.dead_letter_limit import LaneStop
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import RAMP, Throttle
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Lane
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.timing import due
from notifier.flow.lane_guard import stopped_lanes
from notifier.ports.audience import ActiveHours
from notifier.ports.bursts import RecentBursts
from notifier.ports.cache import BacklogReport, Pressure
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.event_log import EventLog, LaneTallies
from notifier.ports.inbox import Seals
from notifier.ports.ledger import Ledger, Sleepers
from notifier.ports.pull_index import PullIndex
from notifier.ports.push import LineReport

LOOKED_BACK = timedelta(hours=1)
LISTED = 256
"""Newest bursts that are read. Their growth is the rate of mentions."""
WATCHED = 32
"""Newest open bursts whose ledger accounts are read. A burst of 200 million followers takes 5 ms."""
SHOWN = 8
COUNTED_EVERY = timedelta(seconds=10)
"""Interval between two counts of deferred bursts: their number changes by the quarter of an hour."""
PACE_OVER = timedelta(seconds=3)
"""A slice is a quarter of a second of work. Over this interval the rate is smooth, and still current."""
SEALS_AT_ONCE = 512
"""Audience snapshots counted per read: 70 ms. A burst of 200 million followers is fully counted after three reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstOverview:
    """The burst shown: the newest with work left, or else the newest; among the large ones, if there are any."""

    burst: Burst
    followers: int
    shards: int
    fillings: Sequence[Filling]
    books: Books
    sealed: int
    """Shards whose audience snapshot is in the books. The others have no snapshot yet, or it is not counted yet."""
    settled: bool
    waits_until: datetime | None
    """When the first slice goes on that waits for the end of quiet hours, or for a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """State of the disposable cache. While the cache does not answer, all fields are empty or None."""

    answers: bool
    generation: str | None
    """A new value means that the cache was emptied and rebuilt. None: emptied and not rebuilt yet."""
    behind: Mapping[Pool, Behind]
    pressure: float | None
    left_alone: Mapping[str, LeftAlone]
    """Providers and push services whose circuit is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    at: datetime
    mentions_per_second: float
    open_bursts: int
    sleeping_bursts: int
    """Deferred bursts, in addition to the open ones. They wait for the end of quiet hours, or for a provider."""
    bursts: Sequence[Burst]
    """The newest bursts."""
    running: BurstOverview | None
    pace: DeliveryRate
    throttles: Sequence[Throttle]
    """Throttles in force or ramping."""
    stopped_lanes: Mapping[str, LaneStop]
    """Lanes that are stopped by their dead-letter limit."""
    cache: Cache

    def seconds_behind(self, pool: Pool) -> float | None:
        """Return the pool's delay. None if no delay is reported, or a throttle holds the remaining work."""
        backlog = self.cache.behind.get(pool)
        if backlog is None or (backlog.slices and backlog.since is None):
            return None
        return (self.at - backlog.since).total_seconds() if backlog.since else 0.0


@dataclass(slots=True, kw_only=True)
class Overview:
    ledger: Ledger
    sleepers: Sleepers
    recent: RecentBursts
    seals: Seals
    throttles: Throttles
    lane_tallies: LaneTallies
    report: BacklogReport
    pressure: Pressure
    lines: LineReport
    pull: PullIndex
    clock: Clock
    counts: dict[BurstKey, int] = field(default_factory=dict)
    """Mentions of the bursts listed at the last read."""
    looked_at: datetime | None = None
    watched: frozenset[BurstKey] = frozenset()
    """Bursts with work left at the last read: their last ledger entries count, too."""
    counted_at: datetime | None = None
    sleeping: int = 0
    """Deferred bursts at `counted_at`."""
    tallied: BurstKey | None = None
    tallies: dict[int, SnapshotCounts] = field(default_factory=dict)
    """Counted audience snapshots of the burst shown, by shard."""

    def read(self) -> Snapshot:
        """Read the overview once. Raises StoreUnavailable; without the cache everything else is still reported."""
        now = self.clock.now()
        listed = [b for b in self.recent.since(now - LOOKED_BACK, None, LISTED) if b.key.subject.kind is Kind.MENTION]
        unsettled = self.ledger.open()
        unsettled_now = frozenset(unsettled)
        shown = _shown(listed, unsettled_now)
        wanted = dict.fromkeys([*unsettled[-WATCHED:], *self.watched, *([shown.key] if shown else [])])
        accounts = self.ledger.read(wanted)
        # Deferred bursts get no more entries: they would be watched all night.
        self.watched = frozenset(k for k, account in accounts.items() if not account.settled and k in unsettled_now)
        throttles = [t for t in self.throttles.since(now - RAMP) if t.active(now) or t.ramping(now)]
        return Snapshot(
            at=now,
            mentions_per_second=self._rate(listed, now),
            open_bursts=len(unsettled),
            sleeping_bursts=self._sleeping(now),
            bursts=listed[:SHOWN],
            running=self._running(shown, accounts.get(shown.key), throttles, now) if shown else None,
            pace=pace(accounts.values(), now=now, over=PACE_OVER),
            throttles=throttles,
            stopped_lanes=stopped_lanes(self.lane_tallies),
            cache=self._cache(),
        )

    def _sleeping(self, now: datetime) -> int:
        if due(self.counted_at, COUNTED_EVERY, now):
            self.counted_at, self.sleeping = now, self.sleepers.count()
        return self.sleeping

    def _rate(self, listed: Sequence[Burst], now: datetime) -> float:
        before, since = self.counts, self.looked_at
        self.counts, self.looked_at = {burst.key: burst.count for burst in listed}, now
        if since is None or now <= since:
            return 0.0
        grown = sum(count - before.get(key, 0) for key, count in self.counts.items())
        return max(0, grown) / (now - since).total_seconds()

    def _running(
        self, burst: Burst, account: BurstProgress | None, throttles: Sequence[Throttle], now: datetime
    ) -> BurstOverview | None:
        if account is None:  # the burst is readable before its plan
            return None
        holding = frozenset(throttle.id for throttle in throttles)
        self._tally(account)
        return BurstOverview(
            burst=burst,
            followers=account.plan.followers,
            shards=account.plan.shards,
            fillings=filling(account, throttles=holding, now=now),
            books=books(account, self.tallies.values(), throttles=holding, now=now),
            sealed=len(self.tallies),
            settled=account.settled,
            waits_until=_waits_until(account.standings.values(), now),
        )

    def _tally(self, account: BurstProgress) -> None:
        key = account.plan.burst
        if key != self.tallied:
            self.tallied, self.tallies = key, {}
        shards = (shard for first, last in account.plan.ranges for shard in range(first, last + 1))
        missing = [shard for shard in shards if shard not in self.tallies]
        for start in range(0, len(missing), SEALS_AT_ONCE):
            tallies = self.seals.tallies(key, missing[start : start + SEALS_AT_ONCE])
            self.tallies |= tallies
            if tallies:  # the next read goes on from here
                return

    def _cache(self) -> Cache:
        try:
            return Cache(
                answers=True,
                generation=self.pull.generation(),
                behind=self.report.told(),
                pressure=self.pressure.level(),
                left_alone=self.lines.told(),
            )
        except CacheUnavailable:  # fails open: the rest of the overview needs none
            return Cache(answers=False, generation=None, behind={}, pressure=None, left_alone={})


def _shown(listed: Sequence[Burst], unsettled: frozenset[BurstKey]) -> Burst | None:
    large = [burst for burst in listed if burst.lane is Lane.CELEBRITY and not burst.pull_only] or listed
    return next((burst for burst in large if burst.key in unsettled), next(iter(large), None))


def _waits_until(standings: Iterable[SliceState], now: datetime) -> datetime | None:
    return min((s.waits_until for s in standings if s.waits_until and s.waits(now)), default=None)


# Freshness: age of the data that tiers are computed from, and accepted records that are not in it yet.

COUNTED = 1_000
"""Maximum records counted per stream."""
OF_AUDIENCES = (topics.FOLLOWS, topics.USERS, topics.ACTIVITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    activity: Published
    rolled_up_at: datetime | None
    """When active users last came into the sets; None if that is unknown."""
    waiting: Mapping[str, int]
    """Accepted records per stream that are not in rows and bitmaps yet."""


def freshness(log: EventLog, hours: ActiveHours, clock: Clock, every: timedelta) -> Fresh:
    """Return the age of the audience data. Raises LogUnavailable."""
    publication, at = rolled_up(hours, clock, every)
    groups = topics.GROUPS
    waiting = {stream: sum(1 for _ in log.waiting(stream, groups[stream], COUNTED)) for stream in OF_AUDIENCES}
    return Fresh(activity=publication, rolled_up_at=at, waiting=waiting)


def rolled_up(hours: ActiveHours, clock: Clock, every: timedelta) -> tuple[Published, datetime | None]:
    """Return how the active sets are published, and when they were last rolled up.

    `every` is the interval of the roll-up; zero if tiers are frozen as they were loaded.
    """
    last = None
    with suppress(CacheUnavailable):  # without the cache no roll-up is known, and none is done
        last = hours.last_rolled_up() if every else None
    return published(last, clock.now(), every), last
