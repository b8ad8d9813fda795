"""Dead-letter limit: stops a processing lane when too many of its records have died.

    running ── one death more than the limit allows ──► stopped ── an operator resumes it ──► running

A processing lane is one stream and the group that reads it, or one pool of slices. A bad deployment may fail on every
record. Without a limit it would move the whole stream to the dead letters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

MAX_CAUSE_LENGTH = 500
"""Maximum number of characters of a cause that a stop keeps. The dead letters have the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterLimit:
    """How many records of a lane may die. 0 switches a limit off."""

    in_a_row: int = 50
    """Maximum number of consecutive deaths. The gateway validates events, so a healthy system has no deaths. A
    deployment that fails on everything is stopped within its first batch of 400."""
    in_window: int = 100
    """Maximum number of deaths among the last `window` records, by default 1 %. A deployment that fails on one kind of
    event seldom fails many times in a row."""
    window: int = 10_000

    @property
    def is_enabled(self) -> bool:
        return self.in_a_row > 0 or self.in_window > 0


class LimitKind(StrEnum):
    """Which limit stopped a lane."""

    IN_A_ROW = "in_a_row"
    IN_WINDOW = "in_window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A record that was moved to the dead letters."""

    record: str
    """Id of the dead letter. After a crash a batch is repeated, and the id shows which deaths were counted before."""
    position: int
    """Value of `DeadLetterTally.seen` with this death counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStop:
    """Why a lane is stopped, and since when."""

    at: datetime
    stopped_by: str
    """The process that reached the limit."""
    kind: LimitKind
    limit: int
    """Number of deaths that were allowed."""
    record: str
    """Id of the record that was not moved to the dead letters."""
    cause: str

    @property
    def reason(self) -> str:
        return (
            f"more than {self.limit} dead letters {'in a row' if self.kind is LimitKind.IN_A_ROW else 'in the window'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTally:
    """Deaths of one lane since it was resumed last, and its stop, if any."""

    lane: str
    version: int = 0
    """Rises by one with each change; 0 before the first."""
    seen: int = 0
    """Number of records handled. Successes are added later, in groups. A record that is repeated may count twice."""
    in_a_row: int = 0
    """Number of consecutive deaths up to now."""
    deaths: tuple[Death, ...] = ()
    """Deaths in the window and consecutive deaths, oldest first."""
    stop: LaneStop | None = None


def count_successes(tally: DeadLetterTally, limit: DeadLetterLimit, success_count: int) -> DeadLetterTally:
    """Return the tally after this many records succeeded."""
    if success_count == 0 or tally.stop is not None:
        return tally
    return _trimmed(replace(tally, seen=tally.seen + success_count, in_a_row=0), limit)


def count_death(
    tally: DeadLetterTally, limit: DeadLetterLimit, *, record: str, cause: str, stopped_by: str, at: datetime
) -> DeadLetterTally:
    """Return the tally with the death counted, or with a stop if the limit doesn't allow one more.

    The caller stores the returned tally first. It moves the record to the dead letters only if the tally has no stop.
    After a crash the record may come again: among the consecutive deaths it counts once.
    """
    if tally.stop is not None or not limit.is_enabled or _is_consecutive_death(tally, record):
        return tally
    earlier = tuple(death for death in tally.deaths if death.record != record)
    new_death = Death(record=record, position=tally.seen + 1)
    counted = replace(tally, seen=tally.seen + 1, in_a_row=tally.in_a_row + 1, deaths=(*earlier, new_death))
    counted = _trimmed(counted, limit)
    kind = _exceeded(counted, limit)
    if kind is None:
        return counted
    allowed = limit.in_a_row if kind is LimitKind.IN_A_ROW else limit.in_window
    stop = LaneStop(
        at=at, stopped_by=stopped_by, kind=kind, limit=allowed, record=record, cause=cause[:MAX_CAUSE_LENGTH]
    )
    # Not `counted`: the record doesn't become a dead letter, and the counts must match the dead letters.
    return replace(tally, stop=stop)


def deaths_in_window(tally: DeadLetterTally, limit: DeadLetterLimit) -> int:
    return sum(death.position > tally.seen - limit.window for death in tally.deaths)


def resumed(tally: DeadLetterTally) -> DeadLetterTally:
    """Return the tally of a lane that starts again with an empty window."""
    return DeadLetterTally(lane=tally.lane, version=tally.version + 1)


def resume_audit(lane: str, stop: LaneStop, reason: str) -> Mapping[str, object]:
    """Return the audit fields of a resume, with the stop that the tally loses."""
    stop_fields = {"stopped_at": stop.at.isoformat(), "stopped_by": stop.stopped_by, "cause": stop.cause}
    return {"lane": lane, "reason": reason, **stop_fields}


def _is_consecutive_death(tally: DeadLetterTally, record: str) -> bool:
    return any(death.record == record for death in tally.deaths[_first_consecutive_index(tally) :])


def _first_consecutive_index(tally: DeadLetterTally) -> int:
    """Return the index in `deaths` of the first consecutive death.

    Without a limit on consecutive deaths, `deaths` may lack the oldest of them.
    """
    return max(0, len(tally.deaths) - tally.in_a_row)


def _exceeded(tally: DeadLetterTally, limit: DeadLetterLimit) -> LimitKind | None:
    if 0 < limit.in_a_row < tally.in_a_row:
        return LimitKind.IN_A_ROW
    if 0 < limit.in_window < deaths_in_window(tally, limit):
        return LimitKind.IN_WINDOW
    return None


def _trimmed(tally: DeadLetterTally, limit: DeadLetterLimit) -> DeadLetterTally:
    """Forget deaths that no limit needs, so that the tally stays small."""
    first_consecutive = _first_consecutive_index(tally) if limit.in_a_row > 0 else len(tally.deaths)
    needed = tuple(
        death
        for index, death in enumerate(tally.deaths)
        if index >= first_consecutive or (limit.in_window > 0 and death.position > tally.seen - limit.window)
    )
    return tally if len(needed) == len(tally.deaths) else replace(tally, deaths=needed)
