"""Backlog: unfinished bursts, indexed so that a dispatch round examines only a few of them."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.delivery.ledger import BurstProgress, LedgerEntry, SliceState
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool, Step
from notifier.domain.ids import BurstKey

MIN_DEFERRAL = timedelta(minutes=1)
"""Shortest deferral for which a burst is evicted. For a shorter one, keeping the burst costs less than reloading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredBurst:
    """A burst that has nothing to do before a known time, for example because members are in quiet hours."""

    burst: BurstKey
    opened_at: datetime
    until: datetime
    """Earliest time at which there is work."""


MAX_PARKED_PER_ROUND = 64
"""Maximum number of additional bursts per pool that a round examines, just to record their slices as parked."""
PUSH_POOLS = frozenset(map(Pool, PUSH_STEPS))

QueuePosition = tuple[datetime, BurstKey]
"""A burst in a queue, with the time that orders the queue: its opening time, or its wake-up time in `wake_queue`."""
QueueKey = tuple[Pool, Tier]
"""Key of a queue of waiting bursts. Rows have a pool per tier. Push has a pool per provider, with a queue per tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBacklog:
    slices: int
    """Number of runnable slices."""
    oldest_opened_at: datetime | None
    """Opening time of the oldest burst with runnable slices; None without such slices, or if the pool is throttled."""
    deferred: int = 0
    """Number of deferred slices, without those of bursts that were evicted."""


@dataclass(slots=True)
class Backlog:
    """In-memory index of unfinished bursts.

    A burst is in flight while one of its slices may be queued or at a worker. Pool credits limit the bursts in flight.
    Other bursts with runnable slices are waiting: they are in queues, oldest first.
    """

    progress: dict[BurstKey, BurstProgress] = field(default_factory=dict)
    runnable_counts: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Number of runnable slices, by burst and pool."""
    runnable_total: Counter[Pool] = field(default_factory=Counter)
    deferred_counts: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Number of deferred slices, by burst and pool. Bursts without deferred slices are missing."""
    deferred_total: Counter[Pool] = field(default_factory=Counter)
    in_flight: dict[BurstKey, None] = field(default_factory=dict)
    """Bursts in flight. An ordered set, so that a round decides the same in every process."""
    finished: dict[BurstKey, None] = field(default_factory=dict)
    """Finished bursts that the caller has not dropped yet."""
    wake_queue: list[QueuePosition] = field(default_factory=list)
    """Bursts with deferred slices, ordered by their earliest wake-up time. They may also be in flight or in queues."""
    wake_times: dict[BurstKey, datetime] = field(default_factory=dict)
    evictable: dict[BurstKey, None] = field(default_factory=dict)
    """Bursts that had no runnable slices when they were put, and a wake-up time more than MIN_DEFERRAL away."""
    queues: dict[QueueKey, list[QueuePosition]] = field(default_factory=lambda: defaultdict(list))
    queues_by_burst: dict[BurstKey, Sequence[QueueKey]] = field(default_factory=dict)
    """Queues that contain each waiting burst."""
    to_park: dict[Pool, dict[BurstKey, None]] = field(default_factory=lambda: {pool: {} for pool in Pool})
    """Waiting bursts with a slice that is not yet marked as parked by the throttle that holds the pool."""
    throttled_by: dict[Pool, str] = field(default_factory=dict)

    def put(self, all_progress: Iterable[BurstProgress], now: datetime) -> None:
        """Insert or replace bursts."""
        for progress in all_progress:
            key = progress.plan.burst
            self.drop([key])
            self.progress[key], self.runnable_counts[key] = progress, _count_runnable(progress, now)
            self.runnable_total += self.runnable_counts[key]
            if (until := _wake_time(progress, now)) is not None:
                self.wake_times[key] = until
                self.deferred_counts[key] = _count_deferred(progress, now)
                self.deferred_total += self.deferred_counts[key]
                insort(self.wake_queue, (until, key))
                if not self.runnable_counts[key] and until > now + MIN_DEFERRAL:
                    self.evictable[key] = None
            if progress.is_finished:
                self.finished[key] = None
            elif any(_may_be_in_flight(slice_state, now) for slice_state in progress.slice_states.values()):
                self.in_flight[key] = None
            else:
                self._enqueue(progress, now)

    def wake(self, now: datetime) -> None:
        """Update the bursts whose wake-up time has passed."""
        due = bisect_right(self.wake_queue, now, key=itemgetter(0))
        self.put([self.progress[key] for _, key in self.wake_queue[:due]], now)

    def deferred_bursts(self) -> Sequence[DeferredBurst]:
        """Return the evictable bursts. The caller must persist them before it drops them."""
        return [
            DeferredBurst(burst=key, opened_at=self.progress[key].plan.opened_at, until=self.wake_times[key])
            for key in self.evictable
        ]

    def apply_entries(self, entries: Iterable[LedgerEntry], now: datetime) -> None:
        """Apply ledger entries written by this process."""
        changed: dict[BurstKey, BurstProgress] = {}
        for entry in entries:
            key = entry.slice.burst
            changed[key] = changed.get(key, self.progress[key]).with_entry(entry)
        self.put(changed.values(), now)

    def drop(self, keys: Collection[BurstKey]) -> None:
        for key in keys:
            if (progress := self.progress.pop(key, None)) is None:
                continue
            self.in_flight.pop(key, None)
            self.finished.pop(key, None)
            self.runnable_total -= self.runnable_counts.pop(key)
            if (until := self.wake_times.pop(key, None)) is not None:
                _remove_position(self.wake_queue, (until, key))
                self.evictable.pop(key, None)
                self.deferred_total -= self.deferred_counts.pop(key)
            for queue_key in self.queues_by_burst.pop(key, ()):
                pool, _ = queue_key
                _remove_position(self.queues[queue_key], (progress.plan.opened_at, key))
                self.to_park[pool].pop(key, None)

    def clear(self) -> None:
        self.drop(list(self.progress))

    def set_throttles(self, throttles: Mapping[Pool, str]) -> None:
        """Set the throttle of each throttled pool."""
        changed = [pool for pool in Pool if throttles.get(pool) != self.throttled_by.get(pool)]
        self.throttled_by = dict(throttles)
        for pool in changed:
            waiting = (self.progress[key] for _, key in self._positions_of(pool))
            self.to_park[pool] = {
                progress.plan.burst: None for progress in waiting if self._has_unparked_slices(progress, pool)
            }

    def candidates(self, max_slices: Mapping[Pool, int], now: datetime) -> Sequence[BurstProgress]:
        """Return the bursts that a round needs. `max_slices` is the number of slices that each pool may start."""
        chosen = dict.fromkeys(self.in_flight)
        for (pool, _), queue in self.queues.items():
            # Push pools need the newest of the late bursts, and the oldest of the bursts that are in time.
            first_in_time = bisect_left(queue, now - LATE_AFTER, key=itemgetter(0)) if pool in PUSH_POOLS else 0
            nearest = queue[max(0, first_in_time - max_slices[pool]) : first_in_time + max_slices[pool]]
            chosen |= dict.fromkeys(key for _, key in nearest)
        for to_park in self.to_park.values():
            chosen |= dict.fromkeys(islice(to_park, MAX_PARKED_PER_ROUND))
        return [self.progress[key] for key in chosen]

    def pool_backlogs(self) -> Mapping[Pool, PoolBacklog]:
        return {
            pool: PoolBacklog(
                slices=self.runnable_total[pool],
                oldest_opened_at=self._oldest_opened_at(pool),
                deferred=self.deferred_total[pool],
            )
            for pool in Pool
        }

    def _oldest_opened_at(self, pool: Pool) -> datetime | None:
        if pool in self.throttled_by:
            return None
        oldest = [
            opened_at
            for (queue_pool, _), queue in self.queues.items()
            if queue_pool is pool
            for opened_at, _ in queue[:1]
        ]
        oldest += [self.progress[key].plan.opened_at for key in self.in_flight if self.runnable_counts[key][pool]]
        return min(oldest, default=None)

    def _positions_of(self, pool: Pool) -> Iterator[QueuePosition]:
        for (queue_pool, _), queue in self.queues.items():
            if queue_pool is pool:
                yield from queue

    def _enqueue(self, progress: BurstProgress, now: datetime) -> None:
        key = progress.plan.burst
        runnable = (
            slice_state.slice
            for slice_state in progress.slice_states.values()
            if progress.is_runnable(slice_state, now)
        )
        self.queues_by_burst[key] = list(dict.fromkeys((slice_.pool, slice_.tier) for slice_ in runnable))
        for queue_key in self.queues_by_burst[key]:
            insort(self.queues[queue_key], (progress.plan.opened_at, key))
        for pool in self.runnable_counts[key]:
            if self._has_unparked_slices(progress, pool):
                self.to_park[pool][key] = None

    def _has_unparked_slices(self, progress: BurstProgress, pool: Pool) -> bool:
        throttle = self.throttled_by.get(pool)
        return throttle is not None and any(
            throttle not in slice_state.parked_by
            for slice_state in progress.slice_states.values()
            if slice_state.slice.pool is pool and slice_state.slice.step is Step.ROWS and not slice_state.final_entry
        )


def _may_be_in_flight(slice_state: SliceState, now: datetime) -> bool:
    """Return whether the slice may be queued or at a worker, even if its task or claim timed out."""
    return slice_state.busy_until() is not None and not slice_state.final_entry and not slice_state.is_deferred(now)


def _count_runnable(progress: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(
        slice_state.slice.pool
        for slice_state in progress.slice_states.values()
        if progress.is_runnable(slice_state, now)
    )


def _count_deferred(progress: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(
        slice_state.slice.pool for slice_state in progress.slice_states.values() if slice_state.is_deferred(now)
    )


def _wake_time(progress: BurstProgress, now: datetime) -> datetime | None:
    return min(
        (s.deferred_until for s in progress.slice_states.values() if s.deferred_until and s.is_deferred(now)),
        default=None,
    )


def _remove_position(queue: list[QueuePosition], position: QueuePosition) -> None:
    index = bisect_left(queue, position)
    if queue[index : index + 1] == [position]:
        del queue[index]
