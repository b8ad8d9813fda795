"""Dispatch scheduling: decides which slices to queue next, by credits, fairness and throttles."""

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
    """Work of a pool that may be queued or running at once: enough to keep it busy, too little to flood it."""

    slices: int
    shards: int
    reserved: int = 0
    """Shards reserved for P0, in a pool of several tiers."""
    kept: int = 0
    """Slices reserved for P0. Narrow slices could otherwise use up all slices, with hardly any shards."""

    def scaled(self, share: float) -> "Credit":
        slices, shards, reserved, kept = (
            int(value * share) for value in (self.slices, self.shards, self.reserved, self.kept)
        )
        return Credit(slices, shards, reserved, kept)


CREDITS = {
    Pool.P0: Credit(slices=64, shards=384),
    Pool.P1: Credit(slices=32, shards=192),
    Pool.P2: Credit(slices=16, shards=192),
} | {
    # VIP alerts pass others in the queue, so credit must remain for them however many others there are.
    Pool(step): Credit(slices=32, shards=384, reserved=320, kept=16)
    for step in PHONES
}

GIVES_WAY = {Pool.P1: timedelta(seconds=2), Pool.P2: timedelta(seconds=30)}
"""Longest time after its opening that a burst's rows wait for those of a higher tier."""
LATE = timedelta(seconds=0.3)
"""Age of a burst at which unfinished P0 rows are late. At rest they are done by then; their target is one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDecision:
    """Result of a dispatch round."""

    queue: tuple[Slice, ...]
    park: tuple[tuple[Slice, str], ...]
    """Slices to mark as parked, with the throttle that holds them."""


@dataclass(slots=True)
class _PoolCredit:
    """Remaining credit of a pool in this round."""

    slices: int
    shards: int
    reserved: int = 0
    kept: int = 0
    people: float | None = None
    """Deliveries that a throttle still allows; None is no limit."""
    running: dict[object, int] = field(default_factory=dict)
    """Queued or running slices by burst."""

    @property
    def has_people(self) -> bool:
        return self.people is None or self.people > 0

    def may_start(self, piece: Slice) -> bool:
        """Return whether slices and deliveries are left for it, regardless of its width."""
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
        """Spend credit on an expired slice, whatever its width. It only takes and counts the audience snapshot."""
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
    """Decide which slices to queue and which to park.

    `people_left` is the number of deliveries that the rate of each throttled tier has accumulated.
    """
    accounts = list(accounts)
    left = {pool: _pool_credit(credits[pool]) for pool in Pool}
    for tier, allowed in allowances.items():
        if allowed.rate is not None:
            left[Pool(tier)].people = people_left.get(tier, 0.0)
    waiting: dict[Pool, list[tuple[BurstProgress, SliceState]]] = {pool: [] for pool in Pool}
    for account in accounts:
        for state in account.standings.values():
            _sort(account, state, now, left, waiting)
    ways = giving_way(accounts, now, allowances)
    queue, park = [], []
    for pool, candidates in waiting.items():
        for account, state in _fairly(candidates, left[pool], now):
            slice_, gives_way = state.slice, state.slice.burst in ways.get(pool, ())
            if not gives_way and _try_start(account, slice_, left[pool], now):
                queue.append(slice_)
            elif throttle := _blocking_throttle(account, state, left[pool], allowances, now, gives_way=gives_way):
                park.append((slice_, throttle))
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

    A slice that gives way is not held by a throttle with deliveries left: it would wait without the throttle, too.
    """
    if expired(account, standing.slice, now) or (gives_way and credit.has_people):
        return None
    throttle = _throttle_on(standing.slice, allowances)
    return None if throttle in standing.parked_by else throttle


def expired(account: BurstProgress, piece: Slice, now: datetime) -> bool:
    """Return whether the slice is left to the pull path.

    For such a slice only the audience snapshot is taken and counted. Throttles neither hold nor charge it.
    """
    return now >= account.worth_until(piece)


def giving_way(
    accounts: Collection[BurstProgress], now: datetime, allowances: Mapping[Tier, TierLimit]
) -> Mapping[Pool, Collection[BurstKey]]:
    """Return the bursts whose P1 rows wait, and those whose P2 rows wait.

    Run concurrently, they would take half of the store from a higher tier. P1 and P2 wait while P0 of any burst is
    late, except for large bursts. P2 also waits until all P1 slices of its own burst are queued, so that workers never
    idle in between. No tier waits for one that a throttle holds.
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
    """Return whether P0 rows of the burst are late.

    Always False for a burst with more shards than one P0 slice may have: its P1 starts at the other end meanwhile.
    """
    opened = account.plan.opened_at
    if not opened + LATE <= now < opened + GIVES_WAY[Pool.P2] or account.plan.shards > WIDEST[Tier.P0]:
        return False
    return any(state.slice.pool is Pool.P0 and not state.ended for state in account.standings.values())


def _p1_waits(account: BurstProgress, now: datetime) -> bool:
    return any(
        state.slice.pool is Pool.P1 and not state.ended and not state.in_flight(now)
        for state in account.standings.values()
    )


def expected_people(account: BurstProgress, piece: Slice) -> float:
    """Estimate the deliveries of a slice.

    From the finished slices of its burst and tier, without dead ones, which have no counts. Without any, from the
    expected share of the tier.
    """
    ended = [
        (state.ended.people, state.slice.width)
        for state in account.standings.values()
        if state.ended
        and state.ended.fact is not Fact.DEAD
        and (state.slice.step, state.slice.tier) == (Step.ROWS, piece.tier)
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
    """Order candidates fairly: bursts take turns, older ones first. A small burst never waits for all of a large one.

    Late alerts come after those in time, newest first: the newest covers older ones, which wait for it.
    """
    turns: dict[object, int] = dict(credit.running)
    keyed = []
    for order, (account, state) in enumerate(sorted(candidates, key=lambda c: _place(c[0]))):
        turn = turns[state.slice.burst] = turns.get(state.slice.burst, 0) + 1
        # P0 alerts come first, regardless of the burst. Rows have a pool per tier.
        rank = PUSHED_TIERS.index(state.slice.tier)
        late = comes_late(account, state.slice, now)
        keyed.append(((rank, late, turn, -order if late else order), account, state))
    return [(account, state) for _, account, state in sorted(keyed, key=lambda k: k[0])]


def _place(account: BurstProgress) -> tuple[datetime, BurstKey]:
    return account.plan.opened_at, account.plan.burst


def _throttle_on(piece: Slice, allowances: Mapping[Tier, TierLimit]) -> str | None:
    allowed = allowances.get(piece.tier) if piece.step is Step.ROWS else None
    return allowed.by if allowed and allowed.rate is not None else None
