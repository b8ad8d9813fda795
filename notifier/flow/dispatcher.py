"""The dispatcher: feeds every pool's queue from the ledger, keeps it shallow, and queues again what was lost.

It is one process at a time, by lease. All it keeps in memory can be read from the ledger again, which is what a new
one does first.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience import TIERS, Tier
from notifier.domain.dispatch import CREDITS, Credit, Decision, decide, expected_people, expired
from notifier.domain.errors import CacheUnavailable, QueueUnavailable
from notifier.domain.ledger import Account, Entry, Fact
from notifier.domain.slice import Pool, Slice, Step
from notifier.domain.subject import BurstKey
from notifier.domain.throttle import RAMP, Allowance, allowance
from notifier.flow.leadership import Leadership
from notifier.ports.cache import Pressure
from notifier.ports.clock import Clock
from notifier.ports.ledger import Ledger
from notifier.ports.queue import Queue
from notifier.ports.throttles import Throttles
from notifier.telemetry import Metrics

READ_EVERY = timedelta(milliseconds=50)
"""Of bursts in flight: the credits last a pool for longer. New bursts are looked for in every round."""
THROTTLES_READ_EVERY = timedelta(seconds=1)
SAVED_AT_MOST = timedelta(seconds=1)
"""A throttled tier saves up this much of its rate and no more."""


@dataclass(slots=True)
class Rates:
    """What the throttles say now, and what each throttled tier's rate has saved up."""

    throttles: Throttles
    pressure: Pressure
    allowances: Mapping[Tier, Allowance] = field(default_factory=dict)
    level: float = 0.0
    saved: dict[Tier, float] = field(default_factory=dict)
    read_at: datetime | None = None
    saved_at: datetime | None = None

    def refresh(self, now: datetime) -> None:
        if self.read_at is None or now >= self.read_at + THROTTLES_READ_EVERY:
            found = self.throttles.since(now - RAMP)
            self.allowances = {tier: allowance(found, tier, now) for tier in TIERS}
            with suppress(CacheUnavailable):  # fails open: without a monitor's word nobody is held back
                self.level = self.pressure.level()
            self.read_at = now
        passed = (now - self.saved_at).total_seconds() if self.saved_at else 0.0
        for tier, allowed in self.allowances.items():
            if allowed.rate is None:
                self.saved.pop(tier, None)
            else:
                most = allowed.rate * SAVED_AT_MOST.total_seconds()
                self.saved[tier] = min(most, self.saved.get(tier, 0.0) + allowed.rate * passed)
        self.saved_at = now

    def credits(self) -> Mapping[Pool, Credit]:
        return CREDITS | {Pool.P2: CREDITS[Pool.P2].scaled(1.0 - self.level)}


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    ledger: Ledger
    queue: Queue
    rates: Rates
    leadership: Leadership
    clock: Clock
    metrics: Metrics
    accounts: dict[BurstKey, Account] = field(default_factory=dict)
    """As last read; what is waiting can't change without this stage, what is in flight is read anew."""
    read_at: datetime | None = None

    def __call__(self) -> int:
        """One round; returns how many slices were queued."""
        now = self.clock.now()
        if not self.leadership.held(now):
            self.accounts.clear()
            return 0
        self._refresh(now)
        self.rates.refresh(now)
        decision = decide(
            self.accounts.values(),
            now=now,
            credits=self.rates.credits(),
            allowances=self.rates.allowances,
            people_left=self.rates.saved,
        )
        return self._carry_out(decision, now)

    def _refresh(self, now: datetime) -> None:
        listed = self.ledger.open()
        for gone in set(self.accounts) - set(listed):
            del self.accounts[gone]
        due = self._due(now)
        stale = [key for key in listed if key not in self.accounts or (due and _moving(self.accounts[key]))]
        self.accounts.update(self.ledger.read(stale))
        self._close([key for key, account in self.accounts.items() if account.settled])

    def _due(self, now: datetime) -> bool:
        due = self.read_at is None or now >= self.read_at + READ_EVERY
        self.read_at = now if due else self.read_at
        return due

    def _close(self, settled: Collection[BurstKey]) -> None:
        if settled:
            self.ledger.close(settled)
        for key in settled:
            del self.accounts[key]

    def _carry_out(self, decision: Decision, now: datetime) -> int:
        parked = [self._parked(piece, by, now) for piece, by in decision.park]
        queued = [self._dispatched(piece, now) for piece in decision.queue]
        if not parked and not queued:
            return 0
        # The fact before the deed: a crash in between leaves a slice that nobody claims, and it is queued again when
        # its deadline has passed. The other way round, a slice could be queued without anybody knowing.
        written = self.ledger.record(parked + queued)
        self._remember(parked + queued)
        mine = [e.slice for e, won in zip(queued, written[len(parked) :], strict=True) if won]
        return self._enqueue(mine, now)

    def _enqueue(self, slices: Sequence[Slice], now: datetime) -> int:
        try:
            self.queue.enqueue(slices)
        except QueueUnavailable:
            self.metrics.outages.labels("queue").inc()
            return 0
        for piece in slices:
            self._spend(piece, now)
            self.metrics.dispatched.labels(piece.pool).inc()
        return len(slices)

    def _spend(self, piece: Slice, now: datetime) -> None:
        account = self.accounts[piece.burst]
        if piece.step is Step.ROWS and piece.tier in self.rates.saved and not expired(account, piece, now):
            self.rates.saved[piece.tier] -= expected_people(account, piece)

    def _parked(self, piece: Slice, by: str, now: datetime) -> Entry:
        n = len(self.accounts[piece.burst].standings[piece].parked_by)
        return Entry(slice=piece, fact=Fact.PARKED, n=n, at=now, note=by)

    def _dispatched(self, piece: Slice, now: datetime) -> Entry:
        n = self.accounts[piece.burst].standings[piece].dispatched + 1
        return Entry(slice=piece, fact=Fact.DISPATCHED, n=n, at=now)

    def _remember(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            key = entry.slice.burst
            self.accounts[key] = self.accounts[key].with_entry(entry)


def _moving(account: Account) -> bool:
    return any(standing.dispatched and not standing.ended for standing in account.standings.values())
