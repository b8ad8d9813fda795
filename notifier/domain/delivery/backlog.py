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
from notifier.domain.delivery.slice import PHONES, Pool, Step
from notifier.domain.ids import BurstKey
from notifier.domain.timing import STALE

# Deferred bursts: nothing to do before a certain time, because their last members are in quiet hours.

FAR = timedelta(minutes=1)
"""Bursts that resume sooner stay in memory; evicting and reloading them would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper:
    """A deferred burst."""

    burst: BurstKey
    opened_at: datetime
    until: datetime
    """Earliest time at which there is work."""


PARKED_AT_ONCE = 64
"""Most bursts per pool that a round marks as parked: several thousand per second."""
RINGING = frozenset(map(Pool, PHONES))

Place = tuple[datetime, BurstKey]
Line = tuple[Pool, Tier]
"""A queue of waiting bursts. Rows have a pool per tier. Push has a pool per provider, with one line for each tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Backlog of one pool."""

    slices: int
    """Unfinished slices that may start or have started."""
    since: datetime | None
    """Opening time of the oldest burst among them; None if none is left, or a throttle holds the pool."""
    later: int = 0
    """Additional slices that wait for a later time, without those of deferred bursts."""


@dataclass(slots=True)
class Backlog:
    """In-memory index of all open bursts.

    A burst is moving while a slice of it may be in a queue or at a worker, and resting otherwise. Pool credits limit
    the moving ones. Resting bursts wait in lines, oldest first, and a round needs no more of a line than its pool has
    credits. Of late alerts it needs the newest, which cover the others. Slices that wait for a later time are in no
    line until then.
    """

    accounts: dict[BurstKey, BurstProgress] = field(default_factory=dict)
    left: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Unfinished slices by burst, without push slices whose rows are unfinished, and without waiting slices."""
    total: Counter[Pool] = field(default_factory=Counter)
    """Sum of `left`."""
    later: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Slices that wait for a later time, by burst."""
    all_later: Counter[Pool] = field(default_factory=Counter)
    """Sum of `later`."""
    moving: dict[BurstKey, None] = field(default_factory=dict)
    """An ordered set, like the other dicts of None, so that a round decides the same in every process."""
    settled: dict[BurstKey, None] = field(default_factory=dict)
    asleep: list[Place] = field(default_factory=list)
    """Bursts with waiting slices, ordered by their earliest wake-up time. They may also be moving or in lines."""
    wakes: dict[BurstKey, datetime] = field(default_factory=dict)
    """Earliest wake-up time by burst."""
    abed: dict[BurstKey, None] = field(default_factory=dict)
    """Bursts in `asleep` without other work, now or soon. They can be evicted until they wake."""
    lines: dict[Line, list[Place]] = field(default_factory=lambda: defaultdict(list))
    stands: dict[BurstKey, Sequence[Line]] = field(default_factory=dict)
    """Lines that contain each resting burst."""
    unmarked: dict[Pool, dict[BurstKey, None]] = field(default_factory=lambda: {pool: {} for pool in Pool})
    """Bursts in lines with a slice not yet marked as parked by the throttle that holds the pool."""
    holding: dict[Pool, str] = field(default_factory=dict)
    """Throttle that holds each held pool."""

    def put(self, accounts: Iterable[BurstProgress], now: datetime) -> None:
        """Insert or replace bursts as read from the store."""
        for account in accounts:
            key = account.plan.burst
            self.drop([key])
            self.accounts[key], self.left[key] = account, _left(account, now)
            self.total += self.left[key]
            if (until := _asleep_until(account, now)) is not None:
                self.wakes[key] = until
                self.later[key] = _later(account, now)
                self.all_later += self.later[key]
                insort(self.asleep, (until, key))
                if not self.left[key] and until > now + FAR:
                    self.abed[key] = None
            if account.settled:
                self.settled[key] = None
            elif any(_moves(state, now) for state in account.standings.values()):
                self.moving[key] = None
            else:
                self._rest(account, now)

    def wake(self, now: datetime) -> None:
        """Move bursts back into the lines once their wake-up time has passed."""
        due = bisect_right(self.asleep, now, key=itemgetter(0))
        self.put([self.accounts[key] for _, key in self.asleep[:due]], now)

    def sleepers(self) -> Sequence[Sleeper]:
        """Return the deferred bursts. The caller persists them, then drops them from memory until they wake."""
        return [
            Sleeper(burst=key, opened_at=self.accounts[key].plan.opened_at, until=self.wakes[key]) for key in self.abed
        ]

    def enter(self, entries: Iterable[LedgerEntry], now: datetime) -> None:
        """Apply ledger entries written by this process."""
        changed: dict[BurstKey, BurstProgress] = {}
        for entry in entries:
            key = entry.slice.burst
            changed[key] = changed.get(key, self.accounts[key]).with_entry(entry)
        self.put(changed.values(), now)

    def drop(self, keys: Collection[BurstKey]) -> None:
        for key in keys:
            if (account := self.accounts.pop(key, None)) is None:
                continue
            self.moving.pop(key, None)
            self.settled.pop(key, None)
            self.total -= self.left.pop(key)
            if (until := self.wakes.pop(key, None)) is not None:
                _leave(self.asleep, (until, key))
                self.abed.pop(key, None)
                self.all_later -= self.later.pop(key)
            for line in self.stands.pop(key, ()):
                _leave(self.lines[line], (account.plan.opened_at, key))
                self.unmarked[line[0]].pop(key, None)

    def clear(self) -> None:
        self.drop(list(self.accounts))

    def hold(self, throttles: Mapping[Pool, str]) -> None:
        """Set the throttle that holds each held pool. After a change all slices in its lines must be marked again."""
        changed = [pool for pool in Pool if throttles.get(pool) != self.holding.get(pool)]
        self.holding = dict(throttles)
        for pool in changed:
            resting = (self.accounts[key] for _, key in self._of(pool))
            self.unmarked[pool] = {a.plan.burst: None for a in resting if self._unmarked(a, pool)}

    def candidates(self, most: Mapping[Pool, int], now: datetime) -> Sequence[BurstProgress]:
        """Return enough bursts to decide a round in which each pool starts at most `most` slices."""
        chosen = dict.fromkeys(self.moving)
        for (pool, _), line in self.lines.items():
            first = bisect_left(line, now - STALE, key=itemgetter(0)) if pool in RINGING else 0
            chosen |= dict.fromkeys(key for _, key in line[max(0, first - most[pool]) : first + most[pool]])
        for unmarked in self.unmarked.values():
            chosen |= dict.fromkeys(islice(unmarked, PARKED_AT_ONCE))
        return [self.accounts[key] for key in chosen]

    def behind(self) -> Mapping[Pool, Behind]:
        return {
            pool: Behind(slices=self.total[pool], since=self._since(pool), later=self.all_later[pool]) for pool in Pool
        }

    def _since(self, pool: Pool) -> datetime | None:
        if pool in self.holding:
            return None
        oldest = [
            opened_at for (line_pool, _), line in self.lines.items() if line_pool is pool for opened_at, _ in line[:1]
        ]
        oldest += [self.accounts[key].plan.opened_at for key in self.moving if self.left[key][pool]]
        return min(oldest, default=None)

    def _of(self, pool: Pool) -> Iterator[Place]:
        for (line_pool, _), line in self.lines.items():
            if line_pool is pool:
                yield from line

    def _rest(self, account: BurstProgress, now: datetime) -> None:
        key = account.plan.burst
        awake = (state.slice for state in account.standings.values() if account.awake(state, now))
        self.stands[key] = list(dict.fromkeys((slice_.pool, slice_.tier) for slice_ in awake))
        for line in self.stands[key]:
            insort(self.lines[line], (account.plan.opened_at, key))
        for pool in self.left[key]:
            if self._unmarked(account, pool):
                self.unmarked[pool][key] = None

    def _unmarked(self, account: BurstProgress, pool: Pool) -> bool:
        throttle = self.holding.get(pool)
        return throttle is not None and any(
            throttle not in state.parked_by
            for state in account.standings.values()
            if state.slice.pool is pool and state.slice.step is Step.ROWS and not state.ended
        )


def _moves(standing: SliceState, now: datetime) -> bool:
    """Return whether the slice may be in a queue or at a worker. Not if it has waited since it was queued last."""
    return standing.busy_until() is not None and not standing.ended and not standing.waits(now)


def _left(account: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(state.slice.pool for state in account.standings.values() if account.awake(state, now))


def _later(account: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(state.slice.pool for state in account.standings.values() if state.waits(now))


def _asleep_until(account: BurstProgress, now: datetime) -> datetime | None:
    return min((s.waits_until for s in account.standings.values() if s.waits_until and s.waits(now)), default=None)


def _leave(line: list[Place], place: Place) -> None:
    index = bisect_left(line, place)
    if line[index : index + 1] == [place]:
        del line[index]
