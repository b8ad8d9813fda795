"""How far a burst has got: which of its shards stand how in each tier, and how fast people were reached lately."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.ledger import Account, Standing, State
from notifier.domain.delivery.slice import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of shards that stand alike."""

    first: int
    last: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Of one tier of a burst."""

    tier: Tier
    spans: Sequence[Span]
    """By shard; shards without a follower are in none."""
    people: int
    """Reached durably."""
    slices: int
    ended: int
    seconds: float | None
    """From the opener's acceptance to the last slice; None while work is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A second, on average."""

    rows: float
    deliveries: float


def filling(account: Account, *, throttles: Collection[str], now: datetime) -> Sequence[Filling]:
    """Of each tier that the burst has; `throttles` are those that hold work back now, ramps included."""
    return [_filling(account, tier, throttles, now) for tier in TIERS if tier in account.plan.widths]


def pace(accounts: Iterable[Account], *, now: datetime, over: timedelta) -> Pace:
    """By the facts of that long: the same whoever asks, and however often."""
    lately = [
        standing.ended
        for account in accounts
        for standing in account.standings.values()
        if standing.slice.step is Step.ROWS and standing.ended and now - over < standing.ended.at <= now
    ]
    seconds = over.total_seconds()
    done = [entry for entry in lately if entry.rows]
    return Pace(rows=sum(e.rows for e in done) / seconds, deliveries=sum(e.people for e in done) / seconds)


def _filling(account: Account, tier: Tier, throttles: Collection[str], now: datetime) -> Filling:
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


def _spans(standing: Standing, throttles: Collection[str], now: datetime) -> Iterator[Span]:
    """Of a slice that was handed back or is renewed the claim says how far it has got."""
    piece, state = standing.slice, standing.state(now, throttles=throttles)
    reached = standing.claim.reached if standing.claim and not standing.ended else piece.first
    if reached > piece.first:
        yield Span(first=piece.first, last=min(reached, piece.last + 1) - 1, state=State.DONE)
    if max(reached, piece.first) <= piece.last:
        yield Span(first=max(reached, piece.first), last=piece.last, state=state)


def _joined(spans: Iterable[Span]) -> Sequence[Span]:
    found: list[Span] = []
    for span in spans:
        if found and (found[-1].last + 1, found[-1].state) == (span.first, span.state):
            found[-1] = Span(first=found[-1].first, last=span.last, state=span.state)
        else:
            found.append(span)
    return found
