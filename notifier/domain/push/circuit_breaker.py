"""Circuit breaker: decides whether and when a failing service is called again.

    Closed ── failures in a row, or misconfiguration ──► Open ── a wait ──► HalfOpen ── successes in a row ──► Closed
                                                          ▲                    │
                                                          └──── any failure ───┘

Each process has its own breakers. They are closed at first, and learn the state of a line from a few calls.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta


def provider_of(line: str) -> str:
    """Return the provider of a line: `apns` for `apns sandbox`, `web` for `web` and a host."""
    return line.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    failures_to_open: int = 5
    """Failures in a row until the breaker opens."""
    open_for: timedelta = timedelta(seconds=30)
    """Shortest time that the breaker stays open. A half-open breaker waits as long for the results of trial calls."""
    max_open_for: timedelta = timedelta(minutes=10)
    """Longest wait that a service can impose: a service with a wrong clock must not stop alerts for good."""
    successes_to_close: int = 3
    """Successes in a row until a half-open breaker closes. No more trial calls pass at a time than are still needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    failures: int = 0
    """Failures in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    since: datetime
    reason: str
    until: datetime | None = None
    """`until` of the failure that opened the breaker, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    since: datetime
    """When the breaker became half-open, or when it last gave up waiting for results of trial calls."""
    reason: str
    """Why the breaker opened."""
    trial_calls: int = 1
    """Calls that were let through, and whose results the breaker waits for."""
    successes: int = 0


Breaker = Closed | Open | HalfOpen
CLOSED = Closed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The service answered properly. 'This device is gone' is a proper answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The service gave no answer, or can't take the call now."""

    reason: str
    until: datetime | None = None
    """Time before which the call should not be repeated, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconfigured:
    """The service refuses all our calls. One such answer opens the breaker, because all others would be the same."""

    reason: str


LineResult = Succeeded | Failed | Misconfigured


def allow(breaker: Breaker, settings: BreakerSettings, now: datetime) -> tuple[Breaker, bool]:
    """Return the breaker's new state, and whether one more call may go through.

    The caller must record the result of the call.
    """
    match breaker:
        case Closed():
            return breaker, True
        case HalfOpen(trial_calls=trial_calls, successes=successes) if (
            trial_calls + successes < settings.successes_to_close
        ):
            return replace(breaker, trial_calls=trial_calls + 1), True
        case _ if _is_waiting(breaker, settings, now):
            return breaker, False
        case Open(reason=reason):
            return HalfOpen(since=now, reason=reason), True
        case HalfOpen():
            return replace(breaker, since=now, trial_calls=1), True


def record(breaker: Breaker, settings: BreakerSettings, result: LineResult, now: datetime) -> Breaker:
    match breaker, result:
        case Closed(), Succeeded():
            return CLOSED
        case Closed(failures=failures), Failed() if failures + 1 < settings.failures_to_open:
            return Closed(failures=failures + 1)
        case HalfOpen(trial_calls=trial_calls, successes=successes), Succeeded() if (
            successes + 1 < settings.successes_to_close
        ):
            return replace(breaker, trial_calls=max(0, trial_calls - 1), successes=successes + 1)
        case HalfOpen(), Succeeded():
            return CLOSED
        case ((Closed() | HalfOpen()), Failed(reason=reason, until=until)):
            return Open(since=now, reason=reason, until=until)
        case ((Closed() | HalfOpen()), Misconfigured(reason=reason)):
            return Open(since=now, reason=reason)
        case _:
            # The breaker is open: this is the result of an earlier call. It must not postpone the next trial.
            return breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCircuit:
    until: datetime
    reason: str


def open_circuit(breaker: Breaker, settings: BreakerSettings, now: datetime) -> OpenCircuit | None:
    """Return the open circuit with its end; None if calls pass, or a trial call is under way or allowed."""
    if isinstance(breaker, Open) and _is_waiting(breaker, settings, now):
        return OpenCircuit(until=_open_until(breaker, settings), reason=breaker.reason)
    return None


def remaining_calls(breaker: Breaker, settings: BreakerSettings, now: datetime) -> int | None:
    """Return how many calls may go through now; None if they are not limited."""
    match breaker:
        case Closed():
            return None
        case HalfOpen(trial_calls=trial_calls, successes=successes) if (
            trial_calls + successes < settings.successes_to_close
        ):
            return settings.successes_to_close - trial_calls - successes
        case _ if _is_waiting(breaker, settings, now):
            return 0
        case Open():
            return settings.successes_to_close
        case HalfOpen(successes=successes):
            return settings.successes_to_close - successes


def retry_at(breaker: Breaker, settings: BreakerSettings, now: datetime) -> datetime:
    """Return when to try the next call; `now` if it may go through at once."""
    if isinstance(breaker, Closed) or remaining_calls(breaker, settings, now) != 0:
        return now
    return _open_until(breaker, settings)


def _open_until(breaker: Open | HalfOpen, settings: BreakerSettings) -> datetime:
    earliest = breaker.since + settings.open_for
    requested = breaker.until if isinstance(breaker, Open) else None
    return earliest if requested is None else max(earliest, min(requested, breaker.since + settings.max_open_for))


def _is_waiting(breaker: Open | HalfOpen, settings: BreakerSettings, now: datetime) -> bool:
    """Return whether the wait is still running. A clock that moved backwards ends the wait."""
    return breaker.since <= now < _open_until(breaker, settings)
