"""The dispatcher: feeds every pool's queue from the ledger, keeps it shallow, and queues again what was lost.

It is one process at a time, by lease. All it keeps in memory can be read from the ledger again, which is what a new
one does first.
"""

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.delivery.backlog import Backlog
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry
from notifier.domain.delivery.scheduling import CREDITS, DispatchDecision, decide, expected_people, expired
from notifier.domain.delivery.slice import Pool, Slice, Step
from notifier.domain.errors import CacheUnavailable, Poison, QueueUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.timing import due
from notifier.flow.delivery.throttling import Rates
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.cache import BacklogReport
from notifier.ports.coordination import Clock, Queue
from notifier.ports.ledger import Ledger, Sleepers

LOGGER = logging.getLogger("notifier.dispatcher")

READ_EVERY = timedelta(milliseconds=100)
"""Of bursts in flight: the credits last a pool for longer. New bursts are looked for in every round."""
LISTED_EVERY = timedelta(seconds=1)
"""Of all open bursts; in between, only those are listed that opened lately."""
LATELY = timedelta(seconds=2)
"""A burst has its plan within this, or it was re-stamped; one that hasn't is found when all are listed."""
READ_AT_ONCE = 256
"""Open bursts that are new to this process: those of a predecessor mustn't keep the newest waiting."""
WOKEN_AT_ONCE = 32
"""Of sleepers, in a round: all of a quarter of an hour may wake at one moment, and to read so many takes 30 ms, for
which whatever is new waits."""
LOOKED_FOR_EVERY = timedelta(seconds=10)
"""What this process laid down it wakes in time; what others did, before their leadership ended, within this."""
TOLD_EVERY = timedelta(seconds=1)
TOLD_FOR = timedelta(seconds=5)
"""How far the pools are behind; whoever asks later learns that nobody says."""


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    ledger: Ledger
    sleepers: Sleepers
    queue: Queue
    rates: Rates
    leadership: Leadership
    report: BacklogReport
    clock: Clock
    metrics: Metrics
    read_at_once: int = READ_AT_ONCE
    backlog: Backlog = field(default_factory=Backlog)
    """What rests can't change without this stage; what moves is read anew."""
    unread: deque[BurstKey] = field(default_factory=deque)
    """Listed as open, and not read yet."""
    unreadable: set[BurstKey] = field(default_factory=set)
    moments: set[datetime] = field(default_factory=set)
    """At which those wake that were laid down here: few, as people are looked for at quarters of an hour."""
    done_at: dict[str, datetime] = field(default_factory=dict)
    """When each of the duties was done last that a round may leave out."""

    def __call__(self) -> int:
        """One round; returns how many slices were queued."""
        now = self.clock.now()
        if not self.leadership.held(now):
            self._forget()
            return 0
        # Whose moment has come is laid down no more: after a round that failed, some of them may be.
        self.backlog.wake(now)
        self._refresh(now)
        self.rates.refresh(now)
        self.backlog.hold(self.rates.holding())
        queued = self._carry_out(self._decision(now), now)
        if self._due("tell", TOLD_EVERY, now):
            self._tell()
        return queued

    def _forget(self) -> None:
        self.backlog.clear()
        self.unread.clear()
        self.unreadable.clear()
        self.moments.clear()
        self.done_at.clear()

    def _decision(self, now: datetime) -> DispatchDecision:
        credits = self.rates.credits()
        return decide(
            self.backlog.candidates({pool: credit.slices for pool, credit in credits.items()}, now),
            now=now,
            credits=credits,
            allowances=self.rates.allowances,
            people_left=self.rates.saved,
        )

    def _refresh(self, now: datetime) -> None:
        if self._due("list", LISTED_EVERY, now):
            listed = self.ledger.open()
            self.backlog.drop(self.backlog.accounts.keys() - set(listed))
            self.unread = deque(listed)
        self.unread.extend(self._woken(now))
        wanted = [key for key in self.ledger.open(now - LATELY) if self._new(key)]
        if self._due("read", READ_EVERY, now):
            wanted += self.backlog.moving
        self.backlog.put(self._read(list(dict.fromkeys([*wanted, *self._older()]))), now)
        if settled := list(self.backlog.settled):
            self.ledger.close(settled)
            self.backlog.drop(settled)
        if sleepers := self.backlog.sleepers():
            # Nothing of them can change before they wake, but by who has lost his claim: he is heard when they do.
            self.sleepers.lay(sleepers, now)
            self.backlog.drop([one.burst for one in sleepers])
            self.moments.update(one.until for one in sleepers)

    def _woken(self, now: datetime) -> Sequence[BurstKey]:
        due = {moment for moment in self.moments if moment <= now}
        if not self._due("wake", LOOKED_FOR_EVERY, now) and not due:
            return ()
        woken = self.sleepers.wake(now, WOKEN_AT_ONCE)
        # Of more the next round wakes the rest.
        self.moments = self.moments | {now} if len(woken) == WOKEN_AT_ONCE else self.moments - due
        return woken

    def _older(self) -> Sequence[BurstKey]:
        older: list[BurstKey] = []
        while self.unread and len(older) < self.read_at_once:
            key = self.unread.popleft()
            if self._new(key):
                older.append(key)
        return older

    def _new(self, key: BurstKey) -> bool:
        return key not in self.backlog.accounts and key not in self.unreadable

    def _read(self, keys: Sequence[BurstKey]) -> Sequence[BurstProgress]:
        """An account that can't be read holds up no other; it stays open for whoever mends it."""
        try:
            return list(self.ledger.read(keys).values())
        except Poison as cause:
            if len(keys) > 1:
                return [account for key in keys for account in self._read([key])]
            LOGGER.error("%s can't be dispatched: %s", keys[0], cause)
            self.metrics.dead.labels("dispatcher").inc()
            self.unreadable.update(keys)
            return ()

    def _due(self, duty: str, every: timedelta, now: datetime) -> bool:
        found = due(self.done_at.get(duty), every, now)
        if found:
            self.done_at[duty] = now
        return found

    def _tell(self) -> None:
        behind = self.backlog.behind()
        for pool, of in behind.items():
            self.metrics.waiting.labels(pool).set(of.slices)
            # Here, too: the workers of a stopped pool get no slice, and so never see that it was resumed.
            self.metrics.lane_stopped.labels(pool).set(pool in self.rates.stopped)
        with suppress(CacheUnavailable):  # fails open: a monitor that isn't told takes nothing from P2
            self.report.tell(behind, TOLD_FOR)

    def _carry_out(self, decision: DispatchDecision, now: datetime) -> int:
        parked = [self._parked(piece, by, now) for piece, by in decision.park]
        queued = [self._dispatched(piece, now) for piece in self._with_room(decision.queue)]
        if not parked and not queued:
            return 0
        # The fact before the deed: a crash in between leaves a slice that nobody claims, and it is queued again when
        # its deadline has passed. The other way round, a slice could be queued without anybody knowing.
        written = self.ledger.record(parked + queued)
        self.backlog.enter(parked + queued, now)
        mine = [e.slice for e, won in zip(queued, written[len(parked) :], strict=True) if won]
        return self._enqueue(mine, now)

    def _with_room(self, slices: Sequence[Slice]) -> Sequence[Slice]:
        """Without the repeats for a queue that is full: nobody empties it, and what waits there isn't lost."""
        repeats = {piece for piece in slices if self.backlog.accounts[piece.burst].standings[piece].dispatched}
        full = {pool for pool in dict.fromkeys(piece.pool for piece in slices if piece in repeats) if self._full(pool)}
        return [piece for piece in slices if piece not in repeats or piece.pool not in full]

    def _full(self, pool: Pool) -> bool:
        try:
            return self.queue.depth(pool) >= CREDITS[pool].slices
        except QueueUnavailable:  # fails open: then nothing can be queued either, and it is tried again later
            return False

    def _enqueue(self, slices: Sequence[Slice], now: datetime) -> int:
        """Pool by pool: one whose broker is away takes no other with it."""
        pools = dict.fromkeys(piece.pool for piece in slices)
        return sum(self._enqueue_in([piece for piece in slices if piece.pool is pool], now) for pool in pools)

    def _enqueue_in(self, slices: Sequence[Slice], now: datetime) -> int:
        try:
            self.queue.enqueue(slices)
        except QueueUnavailable:  # fails closed: nothing is spent, and a later round queues them
            self.metrics.outages.labels("queue").inc()
            return 0
        for piece in slices:
            self._spend(piece, now)
            self.metrics.dispatched.labels(piece.pool).inc()
        return len(slices)

    def _spend(self, piece: Slice, now: datetime) -> None:
        account = self.backlog.accounts[piece.burst]
        if piece.step is Step.ROWS and piece.tier in self.rates.saved and not expired(account, piece, now):
            self.rates.saved[piece.tier] -= expected_people(account, piece)

    def _parked(self, piece: Slice, by: str, now: datetime) -> LedgerEntry:
        n = len(self.backlog.accounts[piece.burst].standings[piece].parked_by)
        return LedgerEntry(slice=piece, fact=Fact.PARKED, n=n, at=now, note=by)

    def _dispatched(self, piece: Slice, now: datetime) -> LedgerEntry:
        n = self.backlog.accounts[piece.burst].standings[piece].dispatched + 1
        return LedgerEntry(slice=piece, fact=Fact.DISPATCHED, n=n, at=now)
