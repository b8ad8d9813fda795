"""The ledger: write-once facts about slices, their rank, and what follows from them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from notifier.domain.plan import Plan
from notifier.domain.slice import Slice, Step


class Fact(StrEnum):
    """In rising rank: a slice's state is its highest fact."""

    DISPATCHED = "dispatched"
    """Queued for the n-th time."""
    ATTEMPT = "attempt"
    """Failed for the n-th time for a reason of its own."""
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
class Entry:
    """One cell of the ledger; the first to write it wins, and every later writer is told that he lost."""

    slice: Slice
    fact: Fact
    n: int = 0
    at: datetime
    people: int = 0
    """Whom the slice was for, by its seals: the same whoever counts."""
    rows: int = 0
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
    IN_FLIGHT = "in_flight"
    PULLED = "pulled"
    DEAD = "dead"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the facts say of one slice."""

    slice: Slice
    dispatched: int = 0
    dispatched_at: datetime | None = None
    attempts: int = 0
    parked_by: frozenset[str] = frozenset()
    ended: Entry | None = None
    claim: Claim | None = None

    def with_entry(self, entry: Entry) -> "Standing":
        match entry.fact:
            case Fact.DISPATCHED if entry.n > self.dispatched:
                return replace(self, dispatched=entry.n, dispatched_at=entry.at)
            case Fact.DISPATCHED:
                return self
            case Fact.ATTEMPT:
                return replace(self, attempts=max(self.attempts, entry.n))
            case Fact.PARKED:
                return replace(self, parked_by=self.parked_by | {entry.note})
            case Fact.PULLED | Fact.DEAD | Fact.DONE:
                higher = self.ended is None or rank(entry.fact) > rank(self.ended.fact)
                return replace(self, ended=entry) if higher else self

    def busy_until(self) -> datetime | None:
        """When the slice may be queued again; None when it never was.

        A claim made after the last dispatch answers it; without one, the dispatch may have been lost, though a worker
        whose claim is older may still be at it.
        """
        if self.dispatched_at is None:
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
        if self.in_flight(now):
            return State.IN_FLIGHT
        return State.PARKED if self.parked_by & set(throttles) else State.PLANNED


def rank(fact: Fact) -> int:
    return list(Fact).index(fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A burst's plan and the standing of every slice of it."""

    plan: Plan
    standings: Mapping[Slice, Standing] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        return all(standing.ended for standing in self.standings.values())

    def with_entry(self, entry: Entry) -> "Account":
        standing = self.standings[entry.slice].with_entry(entry)
        return replace(self, standings={**self.standings, entry.slice: standing})

    def rows_done(self, piece: Slice) -> bool:
        """Phones come after rows: a push slice may start when the rows of the same people stand."""
        rows = self.standings.get(replace(piece, step=Step.ROWS))
        return rows is not None and rows.ended is not None

    def worth_until(self, piece: Slice) -> datetime:
        """When the slice stops being worth its work, and is left to the pull path; one rule for all who ask.

        Rows age with their burst. Alerts age from when the rows of the same people stood, because a throttle that held
        the rows loses nothing; what was left to the pull path rings no phone.
        """
        rows = self.standings.get(replace(piece, step=Step.ROWS)) if piece.step is Step.PUSH else None
        if rows is None or rows.ended is None:
            return self.plan.opened_at + piece.terms.worth
        return rows.ended.at if rows.ended.fact is Fact.PULLED else rows.ended.at + piece.terms.worth


def account(plan: Plan, entries: Iterable[Entry], claims: Iterable[Claim]) -> Account:
    standings = {piece: Standing(slice=piece) for piece in plan.slices()}
    for entry in entries:
        if entry.slice in standings:
            standings[entry.slice] = standings[entry.slice].with_entry(entry)
    for claim in claims:
        if claim.slice in standings:
            standings[claim.slice] = replace(standings[claim.slice], claim=claim)
    return Account(plan=plan, standings=standings)
