"""Backlog: open bursts, indexed so that a dispatch round examines only a few of them."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress, LedgerEntry, SliceState
from notifier.domain.delivery.slice import PUSH_STEPS, Pool, Step
from notifier.domain.ids import BurstKey
from notifier.domain.timing import LATE_AFTER

# Deferred bursts: nothing to do before a certain time, because their last members are in quiet hours.

MIN_DEFERRAL = timedelta(minutes=1)
"""Bursts that resume sooner stay in memory; evicting and reloading them would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredBurst:
    """A deferred burst."""

    burst: BurstKey
    opened_at: datetime
    until: datetime
    """Earliest time at which there is work."""


MAX_PARKED_PER_ROUND = 64
"""Most bursts per pool that a round marks as parked: several thousand per second."""
PUSH_POOLS = frozenset(map(Pool, PUSH_STEPS))

QueuePosition = tuple[datetime, BurstKey]
QueueKey = tuple[Pool, Tier]
"""A queue of waiting bursts. Rows have a pool per tier. Push has a pool per provider, with one line for each tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBacklog:
    """Backlog of one pool."""

    slices: int
    """Unfinished slices that may start or have started."""
    oldest_opened_at: datetime | None
    """Opening time of the oldest burst among them; None if none is left, or a throttle holds the pool."""
    deferred: int = 0
    """Additional slices that wait for a later time, without those of deferred bursts."""


@dataclass(slots=True)
class Backlog:
    """In-memory index of all open bursts.

    A burst is moving while a slice of it may be in a queue or at a worker, and resting otherwise. Pool credits limit
    the moving ones. Resting bursts wait in lines, oldest first, and a round needs no more of a line than its pool has
    credits. Of late alerts it needs the newest, which cover the others. Slices that wait for a later time are in no
    line until then.
    """

    progress: dict[BurstKey, BurstProgress] = field(default_factory=dict)
    unfinished: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Unfinished slices by burst, without push slices whose rows are unfinished, and without waiting slices."""
    unfinished_total: Counter[Pool] = field(default_factory=Counter)
    """Sum of `left`."""
    deferred_slices: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Slices that wait for a later time, by burst."""
    deferred_total: Counter[Pool] = field(default_factory=Counter)
    """Sum of `later`."""
    moving: dict[BurstKey, None] = field(default_factory=dict)
    """An ordered set, like the other dicts of None, so that a round decides the same in every process."""
    finished: dict[BurstKey, None] = field(default_factory=dict)
    wake_queue: list[QueuePosition] = field(default_factory=list)
    """Bursts with waiting slices, ordered by their earliest wake-up time. They may also be moving or in lines."""
    wake_times: dict[BurstKey, datetime] = field(default_factory=dict)
    """Earliest wake-up time by burst."""
    evictable: dict[BurstKey, None] = field(default_factory=dict)
    """Bursts in `asleep` without other work, now or soon. They can be evicted until they wake."""
    queues: dict[QueueKey, list[QueuePosition]] = field(default_factory=lambda: defaultdict(list))
    queues_by_burst: dict[BurstKey, Sequence[QueueKey]] = field(default_factory=dict)
    """Lines that contain each resting burst."""
    unmarked: dict[Pool, dict[BurstKey, None]] = field(default_factory=lambda: {pool: {} for pool in Pool})
    """Bursts in lines with a slice not yet marked as parked by the throttle that holds the pool."""
    throttled_by: dict[Pool, str] = field(default_factory=dict)
    """Throttle that holds each held pool."""

    def put(self, all_progress: Iterable[BurstProgress], now: datetime) -> None:
        """Insert or replace bursts as read from the store."""
        for progress in all_progress:
            key = progress.plan.burst
            self.drop([key])
            self.progress[key], self.unfinished[key] = progress, _count_unfinished(progress, now)
            self.unfinished_total += self.unfinished[key]
            if (until := _wake_time(progress, now)) is not None:
                self.wake_times[key] = until
                self.deferred_slices[key] = _count_deferred(progress, now)
                self.deferred_total += self.deferred_slices[key]
                insort(self.wake_queue, (until, key))
                if not self.unfinished[key] and until > now + MIN_DEFERRAL:
                    self.evictable[key] = None
            if progress.is_finished:
                self.finished[key] = None
            elif any(_is_moving(state, now) for state in progress.slice_states.values()):
                self.moving[key] = None
            else:
                self._enqueue(progress, now)

    def wake(self, now: datetime) -> None:
        """Move bursts back into the lines once their wake-up time has passed."""
        due = bisect_right(self.wake_queue, now, key=itemgetter(0))
        self.put([self.progress[key] for _, key in self.wake_queue[:due]], now)

    def deferred_bursts(self) -> Sequence[DeferredBurst]:
        """Return the deferred bursts. The caller persists them, then drops them from memory until they wake."""
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
            self.moving.pop(key, None)
            self.finished.pop(key, None)
            self.unfinished_total -= self.unfinished.pop(key)
            if (until := self.wake_times.pop(key, None)) is not None:
                _remove_position(self.wake_queue, (until, key))
                self.evictable.pop(key, None)
                self.deferred_total -= self.deferred_slices.pop(key)
            for line in self.queues_by_burst.pop(key, ()):
                _remove_position(self.queues[line], (progress.plan.opened_at, key))
                self.unmarked[line[0]].pop(key, None)

    def clear(self) -> None:
        self.drop(list(self.progress))

    def set_throttles(self, throttles: Mapping[Pool, str]) -> None:
        """Set the throttle that holds each held pool. After a change all slices in its lines must be marked again."""
        changed = [pool for pool in Pool if throttles.get(pool) != self.throttled_by.get(pool)]
        self.throttled_by = dict(throttles)
        for pool in changed:
            resting = (self.progress[key] for _, key in self._positions_of(pool))
            self.unmarked[pool] = {a.plan.burst: None for a in resting if self._unmarked(a, pool)}

    def candidates(self, max_slices: Mapping[Pool, int], now: datetime) -> Sequence[BurstProgress]:
        """Return enough bursts to decide a round in which each pool starts at most `most` slices."""
        chosen = dict.fromkeys(self.moving)
        for (pool, _), line in self.queues.items():
            first = bisect_left(line, now - LATE_AFTER, key=itemgetter(0)) if pool in PUSH_POOLS else 0
            chosen |= dict.fromkeys(key for _, key in line[max(0, first - max_slices[pool]) : first + max_slices[pool]])
        for unmarked in self.unmarked.values():
            chosen |= dict.fromkeys(islice(unmarked, MAX_PARKED_PER_ROUND))
        return [self.progress[key] for key in chosen]

    def pool_backlogs(self) -> Mapping[Pool, PoolBacklog]:
        return {
            pool: PoolBacklog(
                slices=self.unfinished_total[pool],
                oldest_opened_at=self._oldest_opened_at(pool),
                deferred=self.deferred_total[pool],
            )
            for pool in Pool
        }

    def _oldest_opened_at(self, pool: Pool) -> datetime | None:
        if pool in self.throttled_by:
            return None
        oldest = [
            opened_at for (line_pool, _), line in self.queues.items() if line_pool is pool for opened_at, _ in line[:1]
        ]
        oldest += [self.progress[key].plan.opened_at for key in self.moving if self.unfinished[key][pool]]
        return min(oldest, default=None)

    def _positions_of(self, pool: Pool) -> Iterator[QueuePosition]:
        for (line_pool, _), line in self.queues.items():
            if line_pool is pool:
                yield from line

    def _enqueue(self, progress: BurstProgress, now: datetime) -> None:
        key = progress.plan.burst
        awake = (state.slice for state in progress.slice_states.values() if progress.is_active(state, now))
        self.queues_by_burst[key] = list(dict.fromkeys((slice_.pool, slice_.tier) for slice_ in awake))
        for line in self.queues_by_burst[key]:
            insort(self.queues[line], (progress.plan.opened_at, key))
        for pool in self.unfinished[key]:
            if self._unmarked(progress, pool):
                self.unmarked[pool][key] = None

    def _unmarked(self, progress: BurstProgress, pool: Pool) -> bool:
        throttle = self.throttled_by.get(pool)
        return throttle is not None and any(
            throttle not in state.parked_by
            for state in progress.slice_states.values()
            if state.slice.pool is pool and state.slice.step is Step.ROWS and not state.final_entry
        )


def _is_moving(state: SliceState, now: datetime) -> bool:
    """Return whether the slice may be in a queue or at a worker. Not if it has waited since it was queued last."""
    return state.busy_until() is not None and not state.final_entry and not state.is_deferred(now)


def _count_unfinished(progress: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(state.slice.pool for state in progress.slice_states.values() if progress.is_active(state, now))


def _count_deferred(progress: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(state.slice.pool for state in progress.slice_states.values() if state.is_deferred(now))


def _wake_time(progress: BurstProgress, now: datetime) -> datetime | None:
    return min(
        (s.deferred_until for s in progress.slice_states.values() if s.deferred_until and s.is_deferred(now)),
        default=None,
    )


def _remove_position(queue: list[QueuePosition], position: QueuePosition) -> None:
    index = bisect_left(queue, position)
    if queue[index : index + 1] == [position]:
        del queue[index]
