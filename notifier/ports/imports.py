"""The rows of an import, as they are read from somewhere; and its edges: kept in runs, and given back as one line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from notifier.domain.audience.follow_import import Ids, Keys
from notifier.domain.ids import UserId

T = TypeVar("T")


class Some(Protocol):
    """Rows of a source, in order; those that were rejected are counted, and not here."""

    @property
    def read(self) -> int:
        """Up to here, from the source's beginning."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch(Generic[T]):
    rows: Sequence[T]
    read: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Who follows whom."""

    followers: Sequence[UserId]
    followed: Sequence[UserId]
    read: int

    def __len__(self) -> int:
        return len(self.followers)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedFollows:
    """The same of a source whose ids are whole numbers; who follows himself is among them."""

    followers: Ids
    followed: Ids
    read: int

    def __len__(self) -> int:
        return len(self.followers)


class Edges(Protocol):
    """Durable, and one importer's at a time. Raises Full, and Environment where another one has it."""

    def read(self) -> int:
        """Up to where the source was read: so many of its rows are in runs. It goes on there."""
        ...

    def add(self, keys: Keys, read: int) -> None:
        """A run, and with it up to where the source has been read: both or neither, whenever the process dies."""
        ...

    def line(self) -> Iterator[tuple[Keys, int]]:
        """All that wasn't taken yet, each once, in pieces that cut no block off; with each the mark that takes it."""
        ...

    def left(self) -> int:
        """So many weren't taken yet, those that are in several runs counted in each."""
        ...

    def take(self, mark: int) -> None:
        """What was given up to this mark is written where it belongs."""
        ...

    def forget(self) -> None:
        """Everything: the import is done."""
        ...
