"""The backlog: the accounts of all open bursts, ordered so that a round looks at few of them, whatever waits."""

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

# The sleeper: a burst of which nothing is to be done before a moment, because its last people sleep.

FAR = timedelta(minutes=1)
"""What goes on sooner stays at hand: to lay it down and fetch it again is as much work as to hold it for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper:
    burst: BurstKey
    opened_at: datetime
    until: datetime
    """The first moment at which there is something to do."""


PARKED_AT_ONCE = 64
"""Bursts of a pool that a round marks as parked: some thousands a second."""
RINGING = frozenset(map(Pool, PHONES))

Place = tuple[datetime, BurstKey]
Line = tuple[Pool, Tier]
"""Rows have a pool for each tier, and phones one for each provider, where no tier's stand behind another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """How far a pool is behind."""

    slices: int
    """That may start or have started, and haven't ended."""
    since: datetime | None
    """The opening of the oldest burst among them; None when nothing is left, or a throttle holds it."""
    later: int = 0
    """Beside those, slices that go on at a moment to come, without the sleepers'."""


@dataclass(slots=True)
class Backlog:
    """An account moves while a queue or a worker may have a slice of it, and rests otherwise. Credits bound those that
    move; those that rest stand in lines, the oldest first, and no round needs more of a line than its pool has credits.
    Of alerts that are late it needs the newest, which tell of the others.
    What waits for a moment stands in no line until then.
    """

    accounts: dict[BurstKey, BurstProgress] = field(default_factory=dict)
    left: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """Slices that haven't ended, without the phones whose rows don't stand yet, and without what waits for a moment."""
    total: Counter[Pool] = field(default_factory=Counter)
    later: dict[BurstKey, Counter[Pool]] = field(default_factory=dict)
    """What waits for a moment."""
    all_later: Counter[Pool] = field(default_factory=Counter)
    moving: dict[BurstKey, None] = field(default_factory=dict)
    """Dicts that are sets in order: a round decides the same in every process."""
    settled: dict[BurstKey, None] = field(default_factory=dict)
    asleep: list[Place] = field(default_factory=list)
    """By the first moment that something of it waits for, whatever else of it moves or stands in lines."""
    wakes: dict[BurstKey, datetime] = field(default_factory=dict)
    """The same by burst."""
    abed: dict[BurstKey, None] = field(default_factory=dict)
    """Of those, the ones of which nothing else is to be done, nor soon."""
    lines: dict[Line, list[Place]] = field(default_factory=lambda: defaultdict(list))
    stands: dict[BurstKey, Sequence[Line]] = field(default_factory=dict)
    """In which of them each of those that rest is."""
    unmarked: dict[Pool, dict[BurstKey, None]] = field(default_factory=lambda: {pool: {} for pool in Pool})
    """Of the lines, those with a slice that isn't marked as parked by the throttle that holds the pool."""
    holding: dict[Pool, str] = field(default_factory=dict)

    def put(self, accounts: Iterable[BurstProgress], now: datetime) -> None:
        """As they were read last."""
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
            elif any(_moves(standing, now) for standing in account.standings.values()):
                self.moving[key] = None
            else:
                self._rest(account, now)

    def wake(self, now: datetime) -> None:
        """Those whose moment has come stand in the lines again."""
        due = bisect_right(self.asleep, now, key=itemgetter(0))
        self.put([self.accounts[key] for _, key in self.asleep[:due]], now)

    def sleepers(self) -> Sequence[Sleeper]:
        """Whoever lays them down drops them: they need no place here until they wake."""
        return [
            Sleeper(burst=key, opened_at=self.accounts[key].plan.opened_at, until=self.wakes[key]) for key in self.abed
        ]

    def enter(self, entries: Iterable[LedgerEntry], now: datetime) -> None:
        """As they were written by this process."""
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
        """The throttle that holds each held pool; a new one has all of the pool's line to mark."""
        changed = [pool for pool in Pool if throttles.get(pool) != self.holding.get(pool)]
        self.holding = dict(throttles)
        for pool in changed:
            resting = (self.accounts[key] for _, key in self._of(pool))
            self.unmarked[pool] = {a.plan.burst: None for a in resting if self._unmarked(a, pool)}

    def candidates(self, most: Mapping[Pool, int], now: datetime) -> Sequence[BurstProgress]:
        """Accounts enough to decide a round in which each pool starts at most so many slices."""
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
        oldest = [opened_at for (of, _), line in self.lines.items() if of is pool for opened_at, _ in line[:1]]
        oldest += [self.accounts[key].plan.opened_at for key in self.moving if self.left[key][pool]]
        return min(oldest, default=None)

    def _of(self, pool: Pool) -> Iterator[Place]:
        for (of, _), line in self.lines.items():
            if of is pool:
                yield from line

    def _rest(self, account: BurstProgress, now: datetime) -> None:
        key = account.plan.burst
        awake = (standing.slice for standing in account.standings.values() if account.awake(standing, now))
        self.stands[key] = list(dict.fromkeys((piece.pool, piece.tier) for piece in awake))
        for line in self.stands[key]:
            insort(self.lines[line], (account.plan.opened_at, key))
        for pool in self.left[key]:
            if self._unmarked(account, pool):
                self.unmarked[pool][key] = None

    def _unmarked(self, account: BurstProgress, pool: Pool) -> bool:
        by = self.holding.get(pool)
        return by is not None and any(
            by not in standing.parked_by
            for standing in account.standings.values()
            if standing.slice.pool is pool and standing.slice.step is Step.ROWS and not standing.ended
        )


def _moves(standing: SliceState, now: datetime) -> bool:
    """What has waited since it was queued last is in nobody's hands."""
    return standing.busy_until() is not None and not standing.ended and not standing.waits(now)


def _left(account: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(standing.slice.pool for standing in account.standings.values() if account.awake(standing, now))


def _later(account: BurstProgress, now: datetime) -> Counter[Pool]:
    return Counter(standing.slice.pool for standing in account.standings.values() if standing.waits(now))


def _asleep_until(account: BurstProgress, now: datetime) -> datetime | None:
    return min((s.waits_until for s in account.standings.values() if s.waits_until and s.waits(now)), default=None)


def _leave(line: list[Place], place: Place) -> None:
    at = bisect_left(line, place)
    if line[at : at + 1] == [place]:
        del line[at]
