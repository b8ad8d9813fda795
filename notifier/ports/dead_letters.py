"""The dead letters: what could never be processed, with its cause, kept for a person to look at."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    id: str
    """The place it came from, so that a second death of the same record is the same letter."""
    stage: str
    cause: str
    body: bytes
    at: datetime


class DeadLetters(Protocol):
    """Durable. Raises StoreUnavailable or Full."""

    def put(self, letter: DeadLetter) -> None:
        """Once by id."""
        ...

    def list(self, limit: int) -> Sequence[DeadLetter]:
        """Newest first."""
        ...


# Lane tallies: deaths and stop of each lane, shared by all processes.


class LaneTallies(Protocol):
    """One tally for each lane, changed by compare-and-set alone.

    Durable: a tally that was stored survives a crash of any process. Blocking. Raises StoreUnavailable, and Full where
    it writes; then a change may have happened or not, and reading again tells.
    """

    def read(self, lanes: Collection[str]) -> Mapping[str, LaneTally]:
        """Return the tally of each lane; an empty one for a lane that has none. One look-up.

        May miss a change whose answer was lost; `swap` never does.
        """
        ...

    def swap(self, tally: LaneTally) -> LaneTally:
        """Store the tally if the stored version is exactly one below, and return what is stored afterwards.

        The caller has won if it gets its own tally back. A swap whose answer was lost may be repeated, and wins again.
        """
        ...

    def resume(self, lane: str, who: str, reason: str, now: datetime) -> LaneStop | None:
        """End the stop of a lane, empty its tally, and write both to the audit in the same step.

        Returns the stop that was ended; None if the lane isn't stopped, and then nothing changes.
        """
        ...
