"""A breaker: whether somebody who failed is asked again, by how many, and when.

    Closed ── failures in a row, or one mistake of ours ──► Open ── a rest ──► HalfOpen ── successes in a row ──► Closed
                                                             ▲                    │
                                                             └──── any failure ───┘

It is a value: who holds it says what happens and gets the next one. Each process has its own, so nothing is shared, and
nothing has to be kept: a process that starts anew begins closed, and learns what the last one knew from a few tries.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


def line_class(line: str) -> str:
    return line.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    failures: int = 5
    """In a row, until it opens: so few, because each stands for a person whose alert comes late."""
    rest: timedelta = timedelta(seconds=30)
    """Without a try, and for a try that tells nothing."""
    longest: timedelta = timedelta(minutes=10)
    """Of a rest that was asked for: who asks for more has lost his clock, or we would lose him."""
    successes: int = 3
    """In a row, until it closes; meanwhile no more are let through than are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    failures: int = 0
    """In a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    since: datetime
    reason: str
    until: datetime | None = None
    """What the last who failed was asked to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    since: datetime
    """When the first of those who try now was let through."""
    reason: str
    """Why it had opened."""
    trying: int = 1
    """Who was let through and hasn't told."""
    successes: int = 0


Breaker = Closed | Open | HalfOpen
CLOSED = Closed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """It answered as it should, whatever the answer was worth: a device that is gone is a good answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It gave no answer, or said that it can't."""

    reason: str
    until: datetime | None = None
    """It asked not to be asked before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconfigured:
    """It refuses us, whatever we ask: one such answer is enough, and all others would be the same."""

    reason: str


Told = Succeeded | Failed | Misconfigured


def asked(breaker: Breaker, terms: Terms, now: datetime) -> tuple[Breaker, bool]:
    """Whether one more may go through. What comes of it has to be told; who dies before that is waited for no longer
    than a rest."""
    match breaker:
        case Closed():
            return breaker, True
        case HalfOpen(trying=trying, successes=successes) if trying + successes < terms.successes:
            return replace(breaker, trying=trying + 1), True
        case _ if _resting(breaker, terms, now):
            return breaker, False
        case Open(reason=reason):
            return HalfOpen(since=now, reason=reason), True
        case HalfOpen():
            return replace(breaker, since=now, trying=1), True


def told(breaker: Breaker, terms: Terms, what: Told, now: datetime) -> Breaker:
    match breaker, what:
        case Closed(), Succeeded():
            return CLOSED
        case Closed(failures=failures), Failed() if failures + 1 < terms.failures:
            return Closed(failures=failures + 1)
        case HalfOpen(trying=trying, successes=successes), Succeeded() if successes + 1 < terms.successes:
            return replace(breaker, trying=max(0, trying - 1), successes=successes + 1)
        case HalfOpen(), Succeeded():
            return CLOSED
        case ((Closed() | HalfOpen()), Failed(reason=reason, until=until)):
            return Open(since=now, reason=reason, until=until)
        case ((Closed() | HalfOpen()), Misconfigured(reason=reason)):
            return Open(since=now, reason=reason)
        case _:
            # Open: of what was sent before. It shows nothing new, and mustn't put the next try off.
            return breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """Nobody is let through, whatever happens meanwhile."""

    until: datetime
    reason: str


def left_alone(breaker: Breaker, terms: Terms, now: datetime) -> LeftAlone | None:
    """None where somebody tries, or may."""
    if isinstance(breaker, Open) and _resting(breaker, terms, now):
        return LeftAlone(until=_rests_until(breaker, terms), reason=breaker.reason)
    return None


def room(breaker: Breaker, terms: Terms, now: datetime) -> int | None:
    """How many may go through now; None where nobody counts them."""
    match breaker:
        case Closed():
            return None
        case HalfOpen(trying=trying, successes=successes) if trying + successes < terms.successes:
            return terms.successes - trying - successes
        case _ if _resting(breaker, terms, now):
            return 0
        case Open():
            return terms.successes
        case HalfOpen(successes=successes):
            return terms.successes - successes


def again_at(breaker: Breaker, terms: Terms, now: datetime) -> datetime:
    """When who isn't let through may ask again; now where somebody may be."""
    if isinstance(breaker, Closed) or room(breaker, terms, now) != 0:
        return now
    return _rests_until(breaker, terms)


def _rests_until(breaker: Open | HalfOpen, terms: Terms) -> datetime:
    rested = breaker.since + terms.rest
    asked_for = breaker.until if isinstance(breaker, Open) else None
    return rested if asked_for is None else max(rested, min(asked_for, breaker.since + terms.longest))


def _resting(breaker: Open | HalfOpen, terms: Terms, now: datetime) -> bool:
    """A clock that was set back ends it, too."""
    return breaker.since <= now < _rests_until(breaker, terms)
