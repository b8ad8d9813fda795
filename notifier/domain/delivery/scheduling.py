"""Which slices to queue next: credits by pool, fairness between bursts, throttles and what overload leaves of P2."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, comes_late
from notifier.domain.delivery.plan import PUSHED_TIERS, WIDEST, expected_share
from notifier.domain.delivery.slice import PHONES, Pool, Slice, Step
from notifier.domain.delivery.throttle import TierLimit
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True)
class Credit:
    """How much of a pool's work may be queued or running at once: enough to keep it busy, too little to flood it."""

    slices: int
    shards: int
    reserved: int = 0
    """Shards that are for P0 alone, in a pool of several tiers."""
    kept: int = 0
    """Slices that are: narrow ones would take all of them, and hardly a shard."""

    def scaled(self, share: float) -> "Credit":
        slices, shards, reserved, kept = (
            int(each * share) for each in (self.slices, self.shards, self.reserved, self.kept)
        )
        return Credit(slices, shards, reserved, kept)


CREDITS = {
    Pool.P0: Credit(slices=64, shards=384),
    Pool.P1: Credit(slices=32, shards=192),
    Pool.P2: Credit(slices=16, shards=192),
} | {
    # A VIP's alert passes a crowd's in its queue; there has to be room for it, however much a crowd has.
    Pool(step): Credit(slices=32, shards=384, reserved=320, kept=16)
    for step in PHONES
}

GIVES_WAY = {Pool.P1: timedelta(seconds=2), Pool.P2: timedelta(seconds=30)}
"""After its opening a burst's rows wait no longer for a higher tier's, whatever keeps those back."""
LATE = timedelta(seconds=0.3)
"""P0's rows are late so long after the opening: at rest they stand by then, and of its second a third is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDecision:
    queue: tuple[Slice, ...]
    park: tuple[tuple[Slice, str], ...]
    """With the throttle that holds it."""


@dataclass(slots=True)
class _PoolCredit:
    """What is left of a pool's credit in this round."""

    slices: int
    shards: int
    reserved: int = 0
    kept: int = 0
    people: float | None = None
    """What a throttle's rate leaves; None is no limit."""
    running: dict[object, int] = field(default_factory=dict)

    @property
    def has_people(self) -> bool:
        return self.people is None or self.people > 0

    def may_start(self, piece: Slice) -> bool:
        """Return whether slices and people are left for it, whatever its width."""
        return self.slices > (0 if piece.tier is Tier.P0 else self.kept) and self.has_people

    def try_reserve(self, piece: Slice) -> bool:
        """Spend credit on the slice and return True, or return False.

        If only its width is too much, no later slice of this round gets the remaining shards.
        """
        if not self.may_start(piece):
            return False
        # The first slice always fits: one wider than the whole credit must not wait forever.
        room = self.shards if piece.tier is Tier.P0 else self.shards - self.reserved
        if room < piece.width and self.running:
            # Keep the remaining shards for the wide slice, or narrow ones would starve it.
            self.shards = 0
            return False
        self.spend(piece)
        return True

    def try_reserve_expired(self, piece: Slice) -> bool:
        """Spend credit on an expired slice, which is only sealed and counted: its width doesn't matter."""
        if self.slices <= 0:
            return False
        self.spend(piece)
        return True

    def spend(self, piece: Slice) -> None:
        self.slices -= 1
        self.shards -= piece.width
        self.running[piece.burst] = self.running.get(piece.burst, 0) + 1

    def charge(self, people: float) -> None:
        if self.people is not None:
            self.people -= people


def _pool_credit(credit: Credit) -> _PoolCredit:
    return _PoolCredit(credit.slices, credit.shards, credit.reserved, credit.kept)


def decide(
    accounts: Iterable[BurstProgress],
    *,
    now: datetime,
    credits: Mapping[Pool, Credit],
    allowances: Mapping[Tier, TierLimit],
    people_left: Mapping[Tier, float],
) -> DispatchDecision:
    """`people_left` is what the rate of each throttled tier has saved up by now."""
    accounts = list(accounts)
    left = {pool: _pool_credit(credits[pool]) for pool in Pool}
    for tier, allowed in allowances.items():
        if allowed.rate is not None:
            left[Pool(tier)].people = people_left.get(tier, 0.0)
    waiting: dict[Pool, list[tuple[BurstProgress, SliceState]]] = {pool: [] for pool in Pool}
    for account in accounts:
        for standing in account.standings.values():
            _sort(account, standing, now, left, waiting)
    ways = giving_way(accounts, now, allowances)
    queue, park = [], []
    for pool, candidates in waiting.items():
        for account, standing in _fairly(candidates, left[pool], now):
            piece, gives_way = standing.slice, standing.slice.burst in ways.get(pool, ())
            if not gives_way and _try_start(account, piece, left[pool], now):
                queue.append(piece)
            elif throttle := _blocking_throttle(account, standing, left[pool], allowances, now, gives_way=gives_way):
                park.append((piece, throttle))
    return DispatchDecision(queue=tuple(queue), park=tuple(park))


def _try_start(account: BurstProgress, piece: Slice, credit: _PoolCredit, now: datetime) -> bool:
    if expired(account, piece, now):
        return credit.try_reserve_expired(piece)
    if not credit.try_reserve(piece):
        return False
    if piece.step is Step.ROWS:
        credit.charge(expected_people(account, piece))
    return True


def _blocking_throttle(
    account: BurstProgress,
    standing: SliceState,
    credit: _PoolCredit,
    allowances: Mapping[Tier, TierLimit],
    now: datetime,
    *,
    gives_way: bool,
) -> str | None:
    """Return the throttle to record for a slice that can't start, or None.

    A slice that gives way is not held by a throttle that has people left: it would wait without the throttle, too.
    """
    if expired(account, standing.slice, now) or (gives_way and credit.has_people):
        return None
    throttle = _throttle_on(standing.slice, allowances)
    return None if throttle in standing.parked_by else throttle


def expired(account: BurstProgress, piece: Slice, now: datetime) -> bool:
    """Such a slice is only sealed and counted: no throttle holds it, and it spends nothing of a rate."""
    return now >= account.worth_until(piece)


def giving_way(
    accounts: Collection[BurstProgress], now: datetime, allowances: Mapping[Tier, TierLimit]
) -> Mapping[Pool, Collection[BurstKey]]:
    """The bursts whose P1, and whose P2, wait: side by side with a higher tier they would take their half of the store
    from it. Both wait while anybody's P0 is late, but for a large burst's; P2 until all of its own P1 is queued, so
    that nothing stands idle in between. Nobody waits for a tier that a throttle holds.
    """
    held = {tier for tier, allowed in allowances.items() if allowed.rate is not None}
    late = Tier.P0 not in held and any(_p0_late(account, now) for account in accounts)

    def young(pool: Pool) -> Iterator[BurstProgress]:
        return (a for a in accounts if a.plan.opened_at <= now < a.plan.opened_at + GIVES_WAY[pool])

    def behind_p1(account: BurstProgress) -> bool:
        return Tier.P1 not in held and _p1_waits(account, now)

    return {
        Pool.P1: {account.plan.burst for account in young(Pool.P1) if late},
        Pool.P2: {account.plan.burst for account in young(Pool.P2) if late or behind_p1(account)},
    }


def _p0_late(account: BurstProgress, now: datetime) -> bool:
    """Never that of a burst with more shards than a slice of P0 may have: P1 begins at their other end meanwhile."""
    opened = account.plan.opened_at
    if not opened + LATE <= now < opened + GIVES_WAY[Pool.P2] or account.plan.shards > WIDEST[Tier.P0]:
        return False
    return any(standing.slice.pool is Pool.P0 and not standing.ended for standing in account.standings.values())


def _p1_waits(account: BurstProgress, now: datetime) -> bool:
    return any(
        standing.slice.pool is Pool.P1 and not standing.ended and not standing.in_flight(now)
        for standing in account.standings.values()
    )


def expected_people(account: BurstProgress, piece: Slice) -> float:
    """By what the burst's ended slices of this tier had, or by a guess while none has. The dead don't tell."""
    ended = [
        (standing.ended.people, standing.slice.width)
        for standing in account.standings.values()
        if standing.ended
        and standing.ended.fact is not Fact.DEAD
        and (standing.slice.step, standing.slice.tier) == (Step.ROWS, piece.tier)
    ]
    if ended:
        return sum(people for people, _ in ended) / sum(width for _, width in ended) * piece.width
    return (
        account.plan.followers
        / (account.plan.shards or 1)
        * piece.width
        * expected_share(account.plan.lane, piece.tier)
    )


def _sort(
    account: BurstProgress,
    standing: SliceState,
    now: datetime,
    left: Mapping[Pool, _PoolCredit],
    waiting: Mapping[Pool, list[tuple[BurstProgress, SliceState]]],
) -> None:
    piece = standing.slice
    if not account.awake(standing, now):
        return
    if standing.in_flight(now):
        left[piece.pool].spend(piece)
    else:
        waiting[piece.pool].append((account, standing))


def _fairly(
    candidates: list[tuple[BurstProgress, SliceState]], credit: _PoolCredit, now: datetime
) -> Iterable[tuple[BurstProgress, SliceState]]:
    """Bursts take turns, the older first: a small one never waits for all of a large one. Alerts that are late come
    behind those in time, and the newest of them first: the older ones are told by it, and wait until it is."""
    turns: dict[object, int] = dict(credit.running)
    keyed = []
    for order, (account, standing) in enumerate(sorted(candidates, key=lambda c: _place(c[0]))):
        turn = turns[standing.slice.burst] = turns.get(standing.slice.burst, 0) + 1
        # Of phones those of P0 come first, whosever burst; rows have a pool for each tier.
        rank = PUSHED_TIERS.index(standing.slice.tier)
        late = comes_late(account, standing.slice, now)
        keyed.append(((rank, late, turn, -order if late else order), account, standing))
    return [(account, standing) for _, account, standing in sorted(keyed, key=lambda k: k[0])]


def _place(account: BurstProgress) -> tuple[datetime, BurstKey]:
    return account.plan.opened_at, account.plan.burst


def _throttle_on(piece: Slice, allowances: Mapping[Tier, TierLimit]) -> str | None:
    allowed = allowances.get(piece.tier) if piece.step is Step.ROWS else None
    return allowed.by if allowed and allowed.rate is not None else None
