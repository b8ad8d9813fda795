"""The event log: ordered streams of records by partition, read by groups."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    stream: str
    key: str
    """Records of one key share a partition, and so an order."""
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A record with its place."""

    partition: str
    """Written `mentions.celebrity/3`: the stream and the partition. Where a stream may be deleted and made again, its
    name has a mark of its life, as `mentions.celebrity@1f2e3d4c/3`: offsets begin anew with each."""
    offset: int
    """Rises within the partition; gaps are possible."""
    record: Record


class Consumer(Protocol):
    """One member of a group; holds some partitions by lease while it polls. Not thread-safe."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        """At most `limit` records that follow what this consumer polled last, in order within a partition.

        Waits up to `wait` for the first. A partition gained by take-over starts behind the group's commit. Raises
        LogUnavailable.
        """
        ...

    def commit(self, positions: Mapping[str, int]) -> None:
        """Everything up to and including these offsets is done, for ever.

        Never moves back. Positions of partitions that were lost meanwhile are dropped in silence: their new owner
        does the work again.
        """
        ...

    def holds(self) -> bool:
        """Whether all that it polled and didn't commit is still its own to do: by the log's word, asked now.

        Once it says no, all of that comes again, to whoever has it by then. Raises LogUnavailable.
        """
        ...

    def lag(self) -> int:
        """Records in this consumer's partitions behind the group's commit."""
        ...

    def close(self) -> None:
        """Gives the partitions back at once."""
        ...


class EventLog(Protocol):
    def append(self, records: Sequence[Record]) -> None:
        """All are durable when it returns: they survive a crash of any process. Order within a key is kept.

        Thread-safe; appends of several threads share a sync. Raises LogUnavailable or Full, and Poison where a record
        is larger than the log ever takes; then some may have been written.
        """
        ...

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        """Joins the group; an owner that died is replaced when its lease ends (5 s)."""
        ...

    def waiting(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        """At most `limit` records that the group hasn't committed, oldest first within a partition.

        Fewer than `limit` are all of them. Read as they are asked for, a few in memory at a time: one that is done
        meanwhile may be left out. It joins no group and moves nothing. Raises LogUnavailable, also on the way.
        """
        ...

    def forget(self, before: datetime) -> int:
        """Drops records that were appended before then and are done in every group, and says how many it dropped.

        A log that drops them by itself answers 0.
        """
        ...


# The dead letters: what could never be processed, with its cause, kept for a person to look at.


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
