"""Dispatcher: fills each pool's queue from the ledger and re-queues lost slices.

One process leads, by a lease. A new leader reads the state of the unfinished bursts from the ledger, in its first
rounds.
"""

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.backoff_due_times_alert_ages import is_due
from notifier.domain.delivery.dispatch_backlog import Backlog
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry
from notifier.domain.delivery.scheduling import (
    POOL_CREDITS,
    Credit,
    DispatchDecision,
    decide,
    expected_deliveries,
    is_expired,
)
from notifier.domain.delivery.slice_and_pool import Pool, Slice, Step
from notifier.domain.delivery.throttle_and_backpressure import RAMP, TierLimit, tier_limit
from notifier.domain.errors import CacheUnavailable, Poison, QueueUnavailable
from notifier.domain.ids import BurstKey
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import DeadLetterTallies
from notifier.ports.leases_queues_throttles_clock import Clock, Queue, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import DeferredBursts, Ledger
from notifier.ports.recent_events_and_load_limits import BacklogReport, Backpressure

LIMITS_READ_INTERVAL = timedelta(seconds=1)
"""Interval between reads of throttles, backpressure and stopped pools."""
NO_CREDIT = Credit(slices=0, shards=0)
"""Credit of a pool that its dead-letter limit has stopped. The stop parks no slices, since it has no end time."""
MAX_SAVING_TIME = timedelta(seconds=1)
"""A throttled tier's allowance holds at most what the tier's rate allows in this time."""


@dataclass(slots=True)
class PoolRates:
    """Credits of the pools, and limits and allowances of the tiers."""

    throttles: Throttles
    backpressure: Backpressure
    lane_tallies: DeadLetterTallies
    stopped_pools: Collection[Pool] = ()
    limits: Mapping[Tier, TierLimit] = field(default_factory=dict)
    backpressure_level: float = 0.0
    """Share of P2's credit that backpressure withholds, from 0 to 1."""
    allowances: dict[Tier, float] = field(default_factory=dict)
    """Expected deliveries that may be queued now, by throttled tier. They grow at the tier's rate."""
    read_at: datetime | None = None
    allowances_at: datetime | None = None
    """Time up to which the growth is included in `allowances`."""

    def refresh(self, now: datetime) -> None:
        if is_due(self.read_at, LIMITS_READ_INTERVAL, now):
            throttles = self.throttles.ending_after(now - RAMP)
            self.limits = {tier: tier_limit(throttles, tier, now) for tier in TIERS}
            self.backpressure_level = self._read_level()
            tallies = self.lane_tallies.read([str(pool) for pool in Pool])
            self.stopped_pools = {pool for pool in Pool if tallies[pool].stop is not None}
            self.read_at = now
        elapsed = max(0.0, (now - self.allowances_at).total_seconds()) if self.allowances_at else 0.0
        for tier, limit in self.limits.items():
            if limit.rate is None:
                self.allowances.pop(tier, None)
            else:
                max_allowance = limit.rate * MAX_SAVING_TIME.total_seconds()
                self.allowances[tier] = min(max_allowance, self.allowances.get(tier, 0.0) + limit.rate * elapsed)
        self.allowances_at = now

    def _read_level(self) -> float:
        try:
            return self.backpressure.level()
        except CacheUnavailable:  # fails open: while the cache is down there is no backpressure
            return 0.0

    def throttles_by_pool(self) -> Mapping[Pool, str]:
        """Return the throttle id of each throttled pool, including pools that ramp up after the end of a throttle."""
        return {Pool(tier): limit.throttle_id for tier, limit in self.limits.items() if limit.throttle_id is not None}

    def credits(self) -> Mapping[Pool, Credit]:
        credits = POOL_CREDITS | {Pool.P2: POOL_CREDITS[Pool.P2].scaled(1.0 - self.backpressure_level)}
        return credits | dict.fromkeys(self.stopped_pools, NO_CREDIT)


# Dispatcher.

LOGGER = logging.getLogger("notifier.dispatcher")

IN_FLIGHT_READ_INTERVAL = timedelta(milliseconds=100)
"""Interval between reads of the bursts in flight. To finish the slices of its full credit, a pool's workers need longer
than that. So they do not run out of slices between two reads."""
LIST_INTERVAL = timedelta(seconds=1)
"""Interval for listing all unfinished bursts. Every round lists those that opened recently."""
MAX_RECENT_AGE = timedelta(seconds=2)
"""Greatest age of the bursts that every round lists. A plan usually exists by this age. A burst with a later plan is
found when all unfinished bursts are listed."""
MAX_READ_PER_ROUND = 256
"""Maximum number of bursts of `unread_bursts` that one round reads. A long list must not delay the newest bursts."""
MAX_WOKEN_PER_ROUND = 32
"""Maximum number of deferred bursts that one round wakes. Most wake at quarter hours, so many may be due at once.
Reading 32 of them delays new bursts by 30 ms."""
WAKE_INTERVAL = timedelta(seconds=10)
"""Interval for waking bursts that an earlier leader deferred; this process wakes its own on time."""
REPORT_INTERVAL = timedelta(seconds=1)
REPORT_TTL = timedelta(seconds=5)
"""Lifetime of a backlog report. If the dispatcher stops, its last report disappears."""


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
    max_read_per_round: int = MAX_READ_PER_ROUND
    backlog: Backlog = field(default_factory=Backlog)
    """Progress of the unfinished bursts. Bursts in flight are read again, because workers write to the ledger."""
    unread_bursts: deque[BurstKey] = field(default_factory=deque)
    """Bursts to read if they are not in memory: all unfinished bursts as last listed, and deferred ones that woke."""
    unreadable_bursts: set[BurstKey] = field(default_factory=set)
    """Bursts whose ledger entries can't be decoded. They are not read again until this process loses its lease."""
    wake_times: set[datetime] = field(default_factory=set)
    """Wake-up times of bursts deferred by this process."""
    started_at: dict[str, datetime] = field(default_factory=dict)
    """When each periodic duty was last started."""

    def __call__(self) -> int:
        """Run one round; return how many slices were queued."""
        now = self.clock.now()
        if not self.leadership.is_leader(now):
            self._forget()
            return 0
        # Wake bursts before any are deferred. A burst that a failed round could not defer may be due to wake by now.
        self.backlog.wake(now)
        self._refresh(now)
        self.rates.refresh(now)
        self.backlog.set_throttles(self.rates.throttles_by_pool())
        queued_count = self._carry_out(self._decide(now), now)
        if self._start_if_due("report", REPORT_INTERVAL, now):
            self._report_backlog()
        return queued_count

    def _forget(self) -> None:
        self.backlog.clear()
        self.unread_bursts.clear()
        self.unreadable_bursts.clear()
        self.wake_times.clear()
        self.started_at.clear()

    def _decide(self, now: datetime) -> DispatchDecision:
        credits = self.rates.credits()
        return decide(
            self.backlog.candidates({pool: credit.slices for pool, credit in credits.items()}, now),
            now=now,
            credits=credits,
            limits=self.rates.limits,
            deliveries_left=self.rates.allowances,
        )

    def _refresh(self, now: datetime) -> None:
        if self._start_if_due("list", LIST_INTERVAL, now):
            listed = self.ledger.unfinished_bursts()
            self.backlog.drop(self.backlog.progress.keys() - set(listed))
            self.unread_bursts = deque(listed)
        self.unread_bursts.extend(self._wake_due(now))
        to_read = [key for key in self.ledger.unfinished_bursts(now - MAX_RECENT_AGE) if self._is_new(key)]
        if self._start_if_due("read", IN_FLIGHT_READ_INTERVAL, now):
            to_read += self.backlog.in_flight
        self.backlog.put(self._read(list(dict.fromkeys([*to_read, *self._next_unread()]))), now)
        if finished := list(self.backlog.finished):
            self.ledger.unlist(finished)
            self.backlog.drop(finished)
        if deferred_bursts := self.backlog.deferred_bursts():
            # A worker that lost its claim may still write entries of a deferred burst. The burst is read when it wakes.
            self.deferred_bursts.defer(deferred_bursts, now)
            self.backlog.drop([deferred.burst for deferred in deferred_bursts])
            self.wake_times.update(deferred.until for deferred in deferred_bursts)

    def _wake_due(self, now: datetime) -> Sequence[BurstKey]:
        due_times = {wake_time for wake_time in self.wake_times if wake_time <= now}
        if not self._start_if_due("wake", WAKE_INTERVAL, now) and not due_times:
            return ()
        woken = self.deferred_bursts.wake_due(now, MAX_WOKEN_PER_ROUND)
        if len(woken) == MAX_WOKEN_PER_ROUND:  # more bursts may be due: the next round wakes them
            self.wake_times = self.wake_times | {now}
        else:
            self.wake_times = self.wake_times - due_times
        return woken

    def _next_unread(self) -> Sequence[BurstKey]:
        keys: list[BurstKey] = []
        while self.unread_bursts and len(keys) < self.max_read_per_round:
            key = self.unread_bursts.popleft()
            if self._is_new(key):
                keys.append(key)
        return keys

    def _is_new(self, key: BurstKey) -> bool:
        return key not in self.backlog.progress and key not in self.unreadable_bursts

    def _read(self, keys: Sequence[BurstKey]) -> Sequence[BurstProgress]:
        """Read the progress of the bursts. An unreadable burst blocks no other, and is not dispatched."""
        try:
            return list(self.ledger.read(keys).values())
        except Poison as cause:
            if len(keys) > 1:
                return [progress for key in keys for progress in self._read([key])]
            LOGGER.error("can't dispatch %s: %s", keys[0], cause)
            self.metrics.dead_letters.labels("dispatcher").inc()
            self.unreadable_bursts.update(keys)
            self.backlog.drop(keys)
            return ()

    def _start_if_due(self, duty: str, interval: timedelta, now: datetime) -> bool:
        """Return whether the duty is due. If it is, record that it starts now."""
        due_now = is_due(self.started_at.get(duty), interval, now)
        if due_now:
            self.started_at[duty] = now
        return due_now

    def _report_backlog(self) -> None:
        backlogs = self.backlog.pool_backlogs()
        for pool, pool_backlog in backlogs.items():
            self.metrics.runnable_slices.labels(pool).set(pool_backlog.slices)
            # Lane guards set this metric, too. But workers of a stopped pool get no slices, so they miss its resume.
            self.metrics.lane_stopped.labels(pool).set(pool in self.rates.stopped_pools)
        with suppress(CacheUnavailable):  # fails open: without a report, the backpressure ignores the backlog
            self.backlog_report.publish(backlogs, REPORT_TTL)

    def _carry_out(self, decision: DispatchDecision, now: datetime) -> int:
        """Return how many slices were queued."""
        parked = [self._parked_entry(slice_, throttle, now) for slice_, throttle in decision.park]
        dispatched = [
            self._dispatched_entry(slice_, now) for slice_ in self._without_repeats_for_full_pools(decision.queue)
        ]
        if not parked and not dispatched:
            return 0
        # Record before queueing. After a crash between the two, the slice is queued again after `requeue_after`. In the
        # opposite order, a slice could be in the queue without an entry in the ledger.
        are_new = self.ledger.record(parked + dispatched)
        self.backlog.apply_entries(parked + dispatched, now)
        # An entry that exists already is of another leader, or of a failed round. Do not queue its slice again.
        to_enqueue = [entry.slice for entry, is_new in zip(dispatched, are_new[len(parked) :], strict=True) if is_new]
        return self._enqueue(to_enqueue, now)

    def _without_repeats_for_full_pools(self, slices: Sequence[Slice]) -> Sequence[Slice]:
        """Leave out slices that were queued before, if the queue of their pool is full.

        A full queue suggests that the workers are stalled, and that the earlier task of the slice is still in it.
        """
        repeated_slices = {
            slice_ for slice_ in slices if self.backlog.progress[slice_.burst].slice_states[slice_].times_dispatched
        }
        pools = dict.fromkeys(slice_.pool for slice_ in slices if slice_ in repeated_slices)
        full_pools = {pool for pool in pools if self._is_full(pool)}
        return [slice_ for slice_ in slices if slice_ not in repeated_slices or slice_.pool not in full_pools]

    def _is_full(self, pool: Pool) -> bool:
        try:
            return self.queue.depth(pool) >= POOL_CREDITS[pool].slices
        except QueueUnavailable:  # fails open: if the enqueue call fails, too, a later round queues the slice
            return False

    def _enqueue(self, slices: Sequence[Slice], now: datetime) -> int:
        """Queue the slices pool by pool, so that one unavailable broker does not affect other pools."""
        pools = dict.fromkeys(slice_.pool for slice_ in slices)
        return sum(self._enqueue_in_pool([slice_ for slice_ in slices if slice_.pool is pool], now) for pool in pools)

    def _enqueue_in_pool(self, slices: Sequence[Slice], now: datetime) -> int:
        try:
            self.queue.enqueue(slices)
        except QueueUnavailable:  # fails closed: no allowance is spent, and a later round queues the slices
            self.metrics.outages.labels("queue").inc()
            return 0
        for slice_ in slices:
            self._charge_tier(slice_, now)
            self.metrics.dispatched.labels(slice_.pool).inc()
        return len(slices)

    def _charge_tier(self, slice_: Slice, now: datetime) -> None:
        """Subtract the slice's expected deliveries, if any, from the allowance of a throttled tier."""
        progress = self.backlog.progress[slice_.burst]
        if slice_.step is Step.ROWS and slice_.tier in self.rates.allowances and not is_expired(progress, slice_, now):
            self.rates.allowances[slice_.tier] -= expected_deliveries(progress, slice_)

    def _parked_entry(self, slice_: Slice, throttle_id: str, now: datetime) -> LedgerEntry:
        number = len(self.backlog.progress[slice_.burst].slice_states[slice_].parked_by)
        return LedgerEntry(slice=slice_, fact=Fact.PARKED, number=number, at=now, note=throttle_id)

    def _dispatched_entry(self, slice_: Slice, now: datetime) -> LedgerEntry:
        number = self.backlog.progress[slice_.burst].slice_states[slice_].times_dispatched + 1
        return LedgerEntry(slice=slice_, fact=Fact.DISPATCHED, number=number, at=now)
