"""Batches of rows of an import, and the port that sorts its keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from notifier.domain.audience.import_keys_and_follow_rows import ImportKeys, NumericIds
from notifier.domain.ids import UserId

T = TypeVar("T")


class SourceBatch(Protocol):
    """A batch of rows of a source, in order, without rejected rows."""

    @property
    def rows_read(self) -> int:
        """Rows read from the start of the source to the end of this batch, including rejected ones."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch(Generic[T]):
    rows: Sequence[T]
    rows_read: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowEdges:
    """Follow edges: `followers[i]` follows `followed[i]`."""

    followers: Sequence[UserId]
    followed: Sequence[UserId]
    rows_read: int

    def __len__(self) -> int:
        return len(self.followers)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericIdFollowEdges:
    """Follow edges of a source with integer IDs. Accounts that follow themselves are included."""

    followers: NumericIds
    followed: NumericIds
    rows_read: int

    def __len__(self) -> int:
        return len(self.followers)


class KeySort(Protocol):
    """Durable external sort of an import's keys, for one importer at a time. Blocking. Raises DiskFull."""

    def rows_read(self) -> int:
        """Return the number of source rows stored in sorted runs; the import resumes there."""
        ...

    def add(self, keys: ImportKeys, rows_read: int) -> None:
        """Store a sorted run and the source position in one atomic step, even if the process crashes."""
        ...

    def remaining_chunks(self) -> Iterator[tuple[ImportKeys, int]]:
        """Yield all keys that are not done, each once, in ascending chunks that never split a block.

        Each chunk comes with the number to pass to `mark_done` once it is written. All keys of this chunk, and of the
        chunks before it, are below that number.
        """
        ...

    def remaining_count(self) -> int:
        """Return the number of keys that are not done. A key that is in several sorted runs is counted in each."""
        ...

    def mark_done(self, done_below: int) -> None:
        """Record that all keys below this number have been written to their final place."""
        ...

    def clear(self) -> None:
        """Delete everything: the import is finished."""
        ...
