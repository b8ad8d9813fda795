"""The ledger: write-once facts about slices, their rank, and what follows from them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import PHONES, Slice, Step
from notifier.domain.timing import STALE


class Fact(StrEnum):
    """In rising rank: a slice's state is its highest fact."""

    DISPATCHED = "dispatched"
    """Queued for the n-th time."""
    ATTEMPT = "attempt"
    """Failed for the n-th time for a reason of its own."""
    WAITS = "waits"
    """Goes on at a moment to come, for the n-th time: somebody sleeps, or a provider wants to be asked later."""
    PARKED = "parked"
    """Held by a throttle."""
    PULLED = "pulled"
    """Left to the pull path: sealed, counted, not written."""
    DEAD = "dead"
    """Failed too often; in the dead letters."""
    DONE = "done"


ATTEMPTS = 5
"""A slice that failed so often for a reason of its own is dead; outages of the store or the queue don't count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One cell of the ledger; the first to write it wins, and every later writer is told that he lost."""

    slice: Slice
    fact: Fact
    n: int = 0
    at: datetime
    """Of what waits the moment at which it goes on."""
    people: int = 0
    """Whom the slice was for, by its seals: the same whoever counts. Of phones those who were told."""
    rows: int = 0
    phones: int | None = None
    """Of rows that ended: how many of their people may be alerted, by their seals; None where nobody looked."""
    note: str = ""
    """The throttle that parked it, or the cause of death."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's hold on a slice."""

    slice: Slice
    attempt: int
    """Rises with every claim: of two workers the one with the higher attempt holds the slice."""
    owner: str
    claimed_at: datetime
    until: datetime
    reached: int = 0
    """Shards below this one are done: who claims the slice next goes on here, or a slice that is always too slow for
    its worker would never end."""


class State(StrEnum):
    PLANNED = "planned"
    PARKED = "parked"
    WAITING = "waiting"
    IN_FLIGHT = "in_flight"
    PULLED = "pulled"
    DEAD = "dead"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceState:
    """What the facts say of one slice."""

    slice: Slice
    dispatched: int = 0
    dispatched_at: datetime | None = None
    attempts: int = 0
    waited: int = 0
    waits_until: datetime | None = None
    parked_by: frozenset[str] = frozenset()
    ended: LedgerEntry | None = None
    claim: Claim | None = None

    def with_entry(self, entry: LedgerEntry) -> "SliceState":
        match entry.fact:
            case Fact.DISPATCHED if entry.n > self.dispatched:
                return replace(self, dispatched=entry.n, dispatched_at=entry.at)
            case Fact.DISPATCHED:
                return self
            case Fact.ATTEMPT:
                return replace(self, attempts=max(self.attempts, entry.n))
            case Fact.WAITS:
                return replace(self, waited=entry.n, waits_until=entry.at) if entry.n > self.waited else self
            case Fact.PARKED:
                return replace(self, parked_by=self.parked_by | {entry.note})
            case Fact.PULLED | Fact.DEAD | Fact.DONE:
                higher = self.ended is None or rank(entry.fact) > rank(self.ended.fact)
                return replace(self, ended=entry) if higher else self

    def waits(self, now: datetime) -> bool:
        return self.ended is None and self.waits_until is not None and now < self.waits_until

    def busy_until(self) -> datetime | None:
        """When the slice may be queued again; None when it never was, or when it has waited since.

        A claim made after the last dispatch answers it; without one, the dispatch may have been lost, though a worker
        whose claim is older may still be at it.
        """
        if self.dispatched_at is None or (self.waits_until is not None and self.dispatched_at < self.waits_until):
            return None
        lost_at = self.dispatched_at + self.slice.terms.unclaimed
        if self.claim is None:
            return lost_at
        answered = self.claim.claimed_at >= self.dispatched_at
        return self.claim.until if answered else max(lost_at, self.claim.until)

    def in_flight(self, now: datetime) -> bool:
        until = self.busy_until()
        return self.ended is None and until is not None and now < until

    def state(self, now: datetime, *, throttles: Collection[str]) -> State:
        """`throttles` are those that hold the slice's tier now."""
        if self.ended is not None:
            return State(str(self.ended.fact))
        if self.waits(now):
            return State.WAITING
        if self.in_flight(now):
            return State.IN_FLIGHT
        return State.PARKED if self.parked_by & set(throttles) else State.PLANNED


def rank(fact: Fact) -> int:
    return list(Fact).index(fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstProgress:
    """A burst's plan and the standing of every slice of it."""

    plan: Plan
    standings: Mapping[Slice, SliceState] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        return all(standing.ended for standing in self.standings.values())

    def with_entry(self, entry: LedgerEntry) -> "BurstProgress":
        standings = {**self.standings, entry.slice: self.standings[entry.slice].with_entry(entry)}
        if entry.phones == 0:
            for piece in _phones_of(entry.slice):
                standings.pop(piece, None)
        return replace(self, standings=standings)

    def rows_done(self, piece: Slice) -> bool:
        """Phones come after rows: theirs may start when the rows of the same people stand, or were left to the pull
        path, where they are found as surely."""
        rows = self.standings.get(piece.rows)
        return rows is not None and rows.ended is not None

    def awake(self, standing: SliceState, now: datetime) -> bool:
        """Whether it may be worked on, or is: phones come after rows, and what waits for a moment rests until then."""
        if standing.ended or standing.waits(now):
            return False
        return standing.slice.step is Step.ROWS or self.rows_done(standing.slice)

    def worth_until(self, piece: Slice) -> datetime:
        """When the slice stops being worth its work, and is left to the pull path; one rule for all who ask.

        Both age with their burst. A throttle that held the rows costs no alert: phones have a day, and what is late is
        told as one.
        """
        return self.plan.opened_at + piece.terms.worth


def account(plan: Plan, entries: Iterable[LedgerEntry], claims: Iterable[Claim]) -> BurstProgress:
    """Without the phones of rows whose seals say that nobody of theirs is to be alerted: of most bursts, in most
    ranges, there is nothing more to do."""
    entries = list(entries)
    silent = {entry.slice for entry in entries if entry.phones == 0}
    pieces = (piece for piece in plan.slices() if piece.step is Step.ROWS or not silent or piece.rows not in silent)
    standings = {piece: SliceState(slice=piece) for piece in pieces}
    for entry in entries:
        if entry.slice in standings:
            standings[entry.slice] = standings[entry.slice].with_entry(entry)
    for claim in claims:
        if claim.slice in standings:
            standings[claim.slice] = replace(standings[claim.slice], claim=claim)
    return BurstProgress(plan=plan, standings=standings)


def _phones_of(rows: Slice) -> Iterator[Slice]:
    """Those that come after these rows."""
    for tier in (rows.tier, Tier.DORMANT) if rows.tier is Tier.P2 else (rows.tier,):
        yield from (replace(rows, step=step, tier=tier) for step in PHONES)


def stale(opened: Burst | Plan, now: datetime) -> bool:
    return now > opened.opened_at + STALE


def comes_late(account: BurstProgress, piece: Slice, now: datetime) -> bool:
    return piece.step is not Step.ROWS and stale(account.plan, now)
