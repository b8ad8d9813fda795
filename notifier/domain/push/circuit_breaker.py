"""Circuit breaker: decides whether and when a failing service is called again.

    Closed ── failures in a row, or misconfiguration ──► Open ── a rest ──► HalfOpen ── successes in a row ──► Closed
                                                          ▲                    │
                                                          └──── any failure ───┘

A breaker is a value: each event returns the next one. Each process has its own, so nothing is shared or stored. A new
process starts closed, and learns the state from a few calls.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


def provider_of(line: str) -> str:
    """Return the provider of a line, without the environment or push service that may follow it."""
    return line.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    failures: int = 5
    """Failures in a row until it opens. Few, because each one is a late alert of one member."""
    open_for: timedelta = timedelta(seconds=30)
    """How long it stays open, and how long it waits for a call that never reports a result."""
    max_open_for: timedelta = timedelta(minutes=10)
    """Limit for a rest that the service asked for: a wrong clock must not stop alerts for good."""
    successes: int = 3
    """Successes in a row until it closes. Meanwhile only as many calls are let through as are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    failures: int = 0
    """Failures in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    since: datetime
    reason: str
    until: datetime | None = None
    """When the service asked to be called again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    since: datetime
    """When the first of the current trial calls was let through."""
    reason: str
    """Why it had opened."""
    trial_calls: int = 1
    """Calls let through without a result yet."""
    successes: int = 0


Breaker = Closed | Open | HalfOpen
CLOSED = Closed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The service answered properly. 'This device is gone' is a proper answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The service gave no answer, or reported an outage."""

    reason: str
    until: datetime | None = None
    """The service asked not to be called before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconfigured:
    """The service refuses us whatever we send. One such answer opens the breaker: all others would be the same."""

    reason: str


LineResult = Succeeded | Failed | Misconfigured


def allow(breaker: Breaker, settings: BreakerSettings, now: datetime) -> tuple[Breaker, bool]:
    """Return whether one more call may go through. Its result must be recorded, or it is waited for during one rest."""
    match breaker:
        case Closed():
            return breaker, True
        case HalfOpen(trial_calls=trying, successes=successes) if trying + successes < settings.successes:
            return replace(breaker, trial_calls=trying + 1), True
        case _ if _is_open_now(breaker, settings, now):
            return breaker, False
        case Open(reason=reason):
            return HalfOpen(since=now, reason=reason), True
        case HalfOpen():
            return replace(breaker, since=now, trial_calls=1), True


def record(breaker: Breaker, settings: BreakerSettings, result: LineResult, now: datetime) -> Breaker:
    match breaker, result:
        case Closed(), Succeeded():
            return CLOSED
        case Closed(failures=failures), Failed() if failures + 1 < settings.failures:
            return Closed(failures=failures + 1)
        case HalfOpen(trial_calls=trying, successes=successes), Succeeded() if successes + 1 < settings.successes:
            return replace(breaker, trial_calls=max(0, trying - 1), successes=successes + 1)
        case HalfOpen(), Succeeded():
            return CLOSED
        case ((Closed() | HalfOpen()), Failed(reason=reason, until=until)):
            return Open(since=now, reason=reason, until=until)
        case ((Closed() | HalfOpen()), Misconfigured(reason=reason)):
            return Open(since=now, reason=reason)
        case _:
            # Open: the result of a call from before. It shows nothing new, and must not postpone the next trial.
            return breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCircuit:
    """The circuit is open: no call is let through before `until`."""

    until: datetime
    reason: str


def open_circuit(breaker: Breaker, settings: BreakerSettings, now: datetime) -> OpenCircuit | None:
    """Return until when the circuit is open; None if a trial call is under way or allowed."""
    if isinstance(breaker, Open) and _is_open_now(breaker, settings, now):
        return OpenCircuit(until=_open_until(breaker, settings), reason=breaker.reason)
    return None


def remaining_calls(breaker: Breaker, settings: BreakerSettings, now: datetime) -> int | None:
    """Return how many calls may go through now; None if they are not limited."""
    match breaker:
        case Closed():
            return None
        case HalfOpen(trial_calls=trying, successes=successes) if trying + successes < settings.successes:
            return settings.successes - trying - successes
        case _ if _is_open_now(breaker, settings, now):
            return 0
        case Open():
            return settings.successes
        case HalfOpen(successes=successes):
            return settings.successes - successes


def retry_at(breaker: Breaker, settings: BreakerSettings, now: datetime) -> datetime:
    """Return when a call may go through; `now` if one may at once."""
    if isinstance(breaker, Closed) or remaining_calls(breaker, settings, now) != 0:
        return now
    return _open_until(breaker, settings)


def _open_until(breaker: Open | HalfOpen, settings: BreakerSettings) -> datetime:
    rested = breaker.since + settings.open_for
    asked_for = breaker.until if isinstance(breaker, Open) else None
    return rested if asked_for is None else max(rested, min(asked_for, breaker.since + settings.max_open_for))


def _is_open_now(breaker: Open | HalfOpen, settings: BreakerSettings, now: datetime) -> bool:
    """A clock that moved backwards ends the rest, too."""
    return breaker.since <= now < _open_until(breaker, settings)
