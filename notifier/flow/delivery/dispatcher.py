"""Dispatcher: fills each pool's queue from the ledger and re-queues lost slices.

One process dispatches at a time, by lease. All of its in-memory state can be rebuilt from the ledger; a new leader does
that first.
"""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.delivery.backlog import Backlog
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry
from notifier.domain.delivery.scheduling import POOL_CREDITS, DispatchDecision, decide, expected_people, is_expired
from notifier.domain.delivery.slice import Pool, Slice, Step
from notifier.domain.errors import CacheUnavailable, Poison, QueueUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.timing import is_due
from notifier.flow.delivery.throttling import PoolRates
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.cache import BacklogReport
from notifier.ports.coordination import Clock, Queue
from notifier.ports.ledger import DeferredBursts, Ledger

LOGGER = logging.getLogger("notifier.dispatcher")

READ_INTERVAL = timedelta(milliseconds=100)
"""Interval for reading bursts in flight. The credits of a pool last longer. New bursts are read every round."""
LIST_INTERVAL = timedelta(seconds=1)
"""Interval for listing all open bursts; rounds in between list only recently opened ones."""
RECENTLY_OPENED = timedelta(seconds=2)
"""A burst has its plan within this time, or it was re-stamped. A later one is found when all are listed."""
MAX_READ_PER_ROUND = 256
"""Open bursts read per round that are new to this process: a backlog must not delay the newest bursts."""
MAX_WOKEN_PER_ROUND = 32
"""Deferred bursts woken per round. All of a quarter hour may wake at once; reading 32 takes 30 ms and delays new
bursts."""
WAKE_INTERVAL = timedelta(seconds=10)
"""Interval for waking bursts that an earlier leader deferred; this process wakes its own on time."""
REPORT_INTERVAL = timedelta(seconds=1)
REPORT_TTL = timedelta(seconds=5)
"""Lifetime of the backlog report. After that, readers see no report."""


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    ledger: Ledger
    deferred_bursts: DeferredBursts
    queue: Queue
    rates: PoolRates
    leadership: Leadership
    backlog_report: BacklogReport
    clock: Clock
    metrics: Metrics
    read_at_once: int = MAX_READ_PER_ROUND
    backlog: Backlog = field(default_factory=Backlog)
    """Progress of open bursts. Idle bursts change only through this stage; moving ones are re-read."""
    unread: deque[BurstKey] = field(default_factory=deque)
    """Bursts listed as open and not yet read."""
    unreadable: set[BurstKey] = field(default_factory=set)
    wake_times: set[datetime] = field(default_factory=set)
    """Wake-up times of bursts deferred by this process: few, because they are rounded to quarter hours."""
    done_at: dict[str, datetime] = field(default_factory=dict)
    """When each periodic duty was last done."""

    def __call__(self) -> int:
        """Run one round; return how many slices were queued."""
        now = self.clock.now()
        if not self.leadership.is_leader(now):
            self._forget()
            return 0
        # Wake due bursts before deferring any: after a round that failed, some due ones may still be in the backlog.
        self.backlog.wake(now)
        self._refresh(now)
        self.rates.refresh(now)
        self.backlog.set_throttles(self.rates.throttles_by_pool())
        queued = self._carry_out(self._decision(now), now)
        if self._due("report", REPORT_INTERVAL, now):
            self._report_backlog()
        return queued

    def _forget(self) -> None:
        self.backlog.clear()
        self.unread.clear()
        self.unreadable.clear()
        self.wake_times.clear()
        self.done_at.clear()

    def _decision(self, now: datetime) -> DispatchDecision:
        credits = self.rates.credits()
        return decide(
            self.backlog.candidates({pool: credit.slices for pool, credit in credits.items()}, now),
            now=now,
            credits=credits,
            limits=self.rates.limits,
            people_left=self.rates.saved,
        )

    def _refresh(self, now: datetime) -> None:
        if self._due("list", LIST_INTERVAL, now):
            listed = self.ledger.open_bursts()
            self.backlog.drop(self.backlog.progress.keys() - set(listed))
            self.unread = deque(listed)
        self.unread.extend(self._woken(now))
        wanted = [key for key in self.ledger.open_bursts(now - RECENTLY_OPENED) if self._is_new(key)]
        if self._due("read", READ_INTERVAL, now):
            wanted += self.backlog.in_flight
        self.backlog.put(self._read(list(dict.fromkeys([*wanted, *self._next_listed()]))), now)
        if finished := list(self.backlog.finished):
            self.ledger.close(finished)
            self.backlog.drop(finished)
        if deferred_bursts := self.backlog.deferred_bursts():
            # Deferred bursts only change through a worker that lost its claim; its entries are read on wake-up.
            self.deferred_bursts.defer(deferred_bursts, now)
            self.backlog.drop([deferred.burst for deferred in deferred_bursts])
            self.wake_times.update(deferred.until for deferred in deferred_bursts)

    def _woken(self, now: datetime) -> Sequence[BurstKey]:
        due = {moment for moment in self.wake_times if moment <= now}
        if not self._due("wake", WAKE_INTERVAL, now) and not due:
            return ()
        woken = self.deferred_bursts.wake_due(now, MAX_WOKEN_PER_ROUND)
        # If the batch was full, more may be due: the next round wakes them.
        self.wake_times = self.wake_times | {now} if len(woken) == MAX_WOKEN_PER_ROUND else self.wake_times - due
        return woken

    def _next_listed(self) -> Sequence[BurstKey]:
        older: list[BurstKey] = []
        while self.unread and len(older) < self.read_at_once:
            key = self.unread.popleft()
            if self._is_new(key):
                older.append(key)
        return older

    def _is_new(self, key: BurstKey) -> bool:
        return key not in self.backlog.progress and key not in self.unreadable

    def _read(self, keys: Sequence[BurstKey]) -> Sequence[BurstProgress]:
        """Read the progress of the bursts. An unreadable one blocks no other; it stays open until it is repaired."""
        try:
            return list(self.ledger.read(keys).values())
        except Poison as cause:
            if len(keys) > 1:
                return [progress for key in keys for progress in self._read([key])]
            LOGGER.error("can't dispatch %s: %s", keys[0], cause)
            self.metrics.dead_letters.labels("dispatcher").inc()
            self.unreadable.update(keys)
            return ()

    def _due(self, duty: str, every: timedelta, now: datetime) -> bool:
        due_now = is_due(self.done_at.get(duty), every, now)
        if due_now:
            self.done_at[duty] = now
        return due_now

    def _report_backlog(self) -> None:
        backlogs = self.backlog.pool_backlogs()
        for pool, pool_backlog in backlogs.items():
            self.metrics.waiting_slices.labels(pool).set(pool_backlog.slices)
            # Also set here: workers of a stopped pool get no slice, so they do not notice a resume.
            self.metrics.lane_stopped.labels(pool).set(pool in self.rates.stopped)
        with suppress(CacheUnavailable):  # fails open: without the report the monitor leaves P2 its credit
            self.backlog_report.publish(backlogs, REPORT_TTL)

    def _carry_out(self, decision: DispatchDecision, now: datetime) -> int:
        parked = [self._parked(slice_, throttle, now) for slice_, throttle in decision.park]
        queued = [self._dispatched(slice_, now) for slice_ in self._with_room(decision.queue)]
        if not parked and not queued:
            return 0
        # Record before queueing. A crash in between leaves a slice that no worker claims; it is queued again after its
        # deadline. In the opposite order, a slice could be in the queue without a record in the ledger.
        written = self.ledger.record(parked + queued)
        self.backlog.apply_entries(parked + queued, now)
        mine = [e.slice for e, won in zip(queued, written[len(parked) :], strict=True) if won]
        return self._enqueue(mine, now)

    def _with_room(self, slices: Sequence[Slice]) -> Sequence[Slice]:
        """Drop repeats for pools with a full queue: its workers are stalled, and the queued tasks are not lost."""
        repeats = {
            slice_ for slice_ in slices if self.backlog.progress[slice_.burst].slice_states[slice_].times_dispatched
        }
        full = {
            pool for pool in dict.fromkeys(slice_.pool for slice_ in slices if slice_ in repeats) if self._is_full(pool)
        }
        return [slice_ for slice_ in slices if slice_ not in repeats or slice_.pool not in full]

    def _is_full(self, pool: Pool) -> bool:
        try:
            return self.queue.depth(pool) >= POOL_CREDITS[pool].slices
        except QueueUnavailable:  # fails open: queueing fails as well, and is tried again later
            return False

    def _enqueue(self, slices: Sequence[Slice], now: datetime) -> int:
        """Queue the slices pool by pool, so that one unavailable broker does not affect other pools."""
        pools = dict.fromkeys(slice_.pool for slice_ in slices)
        return sum(self._enqueue_in([slice_ for slice_ in slices if slice_.pool is pool], now) for pool in pools)

    def _enqueue_in(self, slices: Sequence[Slice], now: datetime) -> int:
        try:
            self.queue.enqueue(slices)
        except QueueUnavailable:  # fails closed: no rate is spent, and a later round queues the slices
            self.metrics.outages.labels("queue").inc()
            return 0
        for slice_ in slices:
            self._spend(slice_, now)
            self.metrics.dispatched.labels(slice_.pool).inc()
        return len(slices)

    def _spend(self, slice_: Slice, now: datetime) -> None:
        progress = self.backlog.progress[slice_.burst]
        if slice_.step is Step.ROWS and slice_.tier in self.rates.saved and not is_expired(progress, slice_, now):
            self.rates.saved[slice_.tier] -= expected_people(progress, slice_)

    def _parked(self, slice_: Slice, throttle_id: str, now: datetime) -> LedgerEntry:
        n = len(self.backlog.progress[slice_.burst].slice_states[slice_].parked_by)
        return LedgerEntry(slice=slice_, fact=Fact.PARKED, number=n, at=now, note=throttle_id)

    def _dispatched(self, slice_: Slice, now: datetime) -> LedgerEntry:
        n = self.backlog.progress[slice_.burst].slice_states[slice_].times_dispatched + 1
        return LedgerEntry(slice=slice_, fact=Fact.DISPATCHED, number=n, at=now)
