"""Ports of the partitioned event log, the dead letters and the lane tallies."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    stream: str
    key: str
    """Records with the same key go to the same partition and keep their order."""
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A stored record with its partition and offset."""

    partition: str
    """Stream and partition, for example `mentions.celebrity/3`.

    If the log can delete and recreate a stream, the name includes an ID of the incarnation, as in
    `mentions.celebrity@1f2e3d4c/3`. The offsets of each incarnation start over.
    """
    offset: int
    """Increases within the partition; gaps are possible."""
    record: Record


class Consumer(Protocol):
    """One member of a consumer group. It owns partitions as long as it polls. Blocking; not thread-safe.

    Raises LogUnavailable or DiskFull.
    """

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        """Return at most `limit` records that follow the records polled last, in order within a partition.

        Wait up to `wait` for the first record. A partition taken over from another consumer starts after the group's
        committed offset.
        """
        ...

    def commit(self, positions: Mapping[str, int]) -> None:
        """Mark everything up to and including these offsets as processed, for good.

        A commit moves no offset back. Positions of partitions that the consumer has lost are ignored silently: their
        new owner repeats the work.
        """
        ...

    def still_owns_polled_records(self) -> bool:
        """Ask the log whether this consumer still owns every polled record that it has not committed.

        After False, the log delivers all of these records again, to the current owner of each partition.
        """
        ...

    def lag(self) -> int:
        """Return the number of records in this consumer's partitions after the group's committed offsets."""
        ...

    def close(self) -> None:
        """Release the partitions immediately."""
        ...


class EventLog(Protocol):
    """Partitioned log. Every method raises LogUnavailable or DiskFull."""

    def append(self, records: Sequence[Record]) -> None:
        """Append the records. All are durable on return and survive the crash of any process.

        The order within a key is kept. Blocking and thread-safe. Raises Poison for a record that is larger than the log
        accepts. After an error some records may have been written.
        """
        ...

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        """Join the consumer group. A crashed owner is replaced when its lease expires (5 s)."""
        ...

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        """Yield at most `limit` records that the group has not committed, oldest first within a partition.

        If it yields fewer than `limit` records, there are no more. Records are read lazily, with a few in memory at a
        time; a record that is committed meanwhile may be missing. The call joins no group and moves no offset.
        """
        ...

    def drop_committed(self, before: datetime) -> int:
        """Drop records appended before `before` that every group has committed; return how many were dropped.

        A log with its own retention returns 0.
        """
        ...


# Dead letters: records and slices that can never be processed, kept with their cause for an operator.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    id: str
    """Name of the slice, or partition and offset of the record. A repeated failure has the same ID."""
    stage: str
    """Name of the consumer loop, or of the slice's pool."""
    cause: str
    body: bytes
    at: datetime


class DeadLetters(Protocol):
    """Dead letters by ID. Durable. Raises StoreUnavailable or DiskFull."""

    def put(self, letter: DeadLetter) -> None:
        """Store the letter. Idempotent by ID."""
        ...

    def list(self, limit: int) -> Sequence[DeadLetter]:
        """Return at most `limit` letters, newest first."""
        ...


# Lane tallies: dead-letter counts and stop of each processing lane, shared by all processes.


class DeadLetterTallies(Protocol):
    """One tally per lane, changed only by compare-and-set.

    Durable: a stored tally survives the crash of any process. Blocking. Raises StoreUnavailable, and DiskFull for
    writes. After an error the change may or may not have been made; repeat the call to find out.
    """

    def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
        """Return the tally of each lane; an empty tally for a lane without one.

        The result may lack a change whose answer was lost. Only `compare_and_set` is sure to return it.
        """
        ...

    def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
        """Store the tally if the stored version is exactly one lower; return the tally stored afterwards.

        The call has succeeded if the caller gets its own tally back. If the answer is lost, the caller may repeat the
        call.
        """
        ...

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        """End the stop of a lane, and reset its tally. The audit log gets the resume first, or in the same step.

        Return the stop that was ended, or None if the lane is not stopped; then nothing changes.
        """
        ...
