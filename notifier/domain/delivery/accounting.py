"""The books of a burst: everybody who was expected is delivered, suppressed, parked, pulled, dead or in flight."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.snapshot import KEPT_FOR, SnapshotCounts
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, State
from notifier.domain.delivery.slice import Slice, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """In people; over the sealed shards."""

    expected: int
    delivered: int
    suppressed: int
    parked: int
    pulled: int
    dead: int
    in_flight: int
    expired: bool = False
    """The seals, of which everything is reckoned, are gone or going: there is nothing to check against any more."""

    @property
    def balanced(self) -> bool:
        parts = self.delivered + self.suppressed + self.parked + self.pulled + self.dead + self.in_flight
        return self.expected == parts


def books(
    account: BurstProgress, tallies: Iterable[SnapshotCounts], *, throttles: Collection[str], now: datetime
) -> Books:
    """What isn't ended is in flight, or parked; an ended slice counts the people that its own entry names.

    A dead one names nobody: whoever failed at it can't say for whom, so the seals do.
    """
    by_shard = {tally.shard: tally for tally in tallies}
    ended = {State.DONE: 0, State.PULLED: 0, State.DEAD: 0}
    waiting = {State.PARKED: 0, State.IN_FLIGHT: 0}
    for standing in account.standings.values():
        piece = standing.slice
        if piece.step is not Step.ROWS:
            continue
        people = _people(by_shard, piece)
        if standing.ended:
            dead = standing.ended.fact is Fact.DEAD
            ended[State(str(standing.ended.fact))] += people if dead else standing.ended.people
            continue
        parked = standing.state(now, throttles=throttles) is State.PARKED
        waiting[State.PARKED if parked else State.IN_FLIGHT] += people
    return Books(
        expected=sum(tally.expected for tally in by_shard.values()),
        delivered=ended[State.DONE],
        suppressed=sum(tally.suppressed for tally in by_shard.values()),
        parked=waiting[State.PARKED],
        pulled=ended[State.PULLED],
        dead=ended[State.DEAD],
        in_flight=waiting[State.IN_FLIGHT],
        expired=now >= account.plan.opened_at + KEPT_FOR,
    )


def _people(tallies: dict[int, SnapshotCounts], piece: Slice) -> int:
    return sum(tallies[shard].reached[piece.tier] for shard in piece.shards if shard in tallies)


# How far a burst has got: which of its shards stand how in each tier, and how fast people were reached lately.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpan:
    """A run of shards that stand alike."""

    first: int
    last: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Of one tier of a burst."""

    tier: Tier
    spans: Sequence[ShardSpan]
    """By shard; shards without a follower are in none."""
    people: int
    """Reached durably."""
    slices: int
    ended: int
    seconds: float | None
    """From the opener's acceptance to the last slice; None while work is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRate:
    """A second, on average."""

    rows: float
    deliveries: float


def filling(account: BurstProgress, *, throttles: Collection[str], now: datetime) -> Sequence[Filling]:
    """Of each tier that the burst has; `throttles` are those that hold work back now, ramps included."""
    return [_filling(account, tier, throttles, now) for tier in TIERS if tier in account.plan.widths]


def pace(accounts: Iterable[BurstProgress], *, now: datetime, over: timedelta) -> DeliveryRate:
    """By the facts of that long: the same whoever asks, and however often."""
    lately = [
        standing.ended
        for account in accounts
        for standing in account.standings.values()
        if standing.slice.step is Step.ROWS and standing.ended and now - over < standing.ended.at <= now
    ]
    seconds = over.total_seconds()
    done = [entry for entry in lately if entry.rows]
    return DeliveryRate(rows=sum(e.rows for e in done) / seconds, deliveries=sum(e.people for e in done) / seconds)


def _filling(account: BurstProgress, tier: Tier, throttles: Collection[str], now: datetime) -> Filling:
    of_tier = (s for s in account.standings.values() if s.slice.tier is tier and s.slice.step is Step.ROWS)
    rows = sorted(of_tier, key=lambda standing: standing.slice.first)
    ended = [standing.ended for standing in rows if standing.ended]
    last = max((entry.at for entry in ended), default=None) if len(ended) == len(rows) else None
    return Filling(
        tier=tier,
        spans=_joined(span for standing in rows for span in _spans(standing, throttles, now)),
        people=sum(entry.people for entry in ended if State(str(entry.fact)) is State.DONE),
        slices=len(rows),
        ended=len(ended),
        seconds=(last - account.plan.accepted_at).total_seconds() if last else None,
    )


def _spans(standing: SliceState, throttles: Collection[str], now: datetime) -> Iterator[ShardSpan]:
    """Of a slice that was handed back or is renewed the claim says how far it has got."""
    piece, state = standing.slice, standing.state(now, throttles=throttles)
    reached = standing.claim.reached if standing.claim and not standing.ended else piece.first
    if reached > piece.first:
        yield ShardSpan(first=piece.first, last=min(reached, piece.last + 1) - 1, state=State.DONE)
    if max(reached, piece.first) <= piece.last:
        yield ShardSpan(first=max(reached, piece.first), last=piece.last, state=state)


def _joined(spans: Iterable[ShardSpan]) -> Sequence[ShardSpan]:
    found: list[ShardSpan] = []
    for span in spans:
        if found and (found[-1].last + 1, found[-1].state) == (span.first, span.state):
            found[-1] = ShardSpan(first=found[-1].first, last=span.last, state=span.state)
        else:
            found.append(span)
    return found
