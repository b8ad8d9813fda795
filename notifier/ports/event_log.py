"""The event log: ordered streams of records by partition, read by groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


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
