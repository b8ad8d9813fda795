"""What the rows of a file have in them: which columns are read, and what is made of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from notifier.domain.upstream.validation import LONGEST_ID, fault

T_co = TypeVar("T_co", covariant=True)

Reject = Callable[[int, str], None]
"""A row, counted from 1, and why it isn't taken."""


Ignore = Callable[[Iterable[str]], object]
"""Is told of columns that nothing is read of; of the same ones as often as they are found."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What stands in a row's place."""

    why: str


Found = Sequence[object] | Unreadable | None
"""The values of the layout's columns in its order, None where there is none; and None of an empty line."""

Taken = Callable[[Iterable[tuple[int, Found]], int, Reject], T_co]
"""Of numbered rows, which reach up to the second. What is wrong with one of them is told."""

Quick = Callable[[Any, int, int, Reject], T_co | None]
"""The same of a table's columns at once: its rows between two places. None where each has to be looked at by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[T_co]):
    of: str
    """What a row is, as the end of a sentence."""
    needed: Sequence[str]
    """Ids: text, or whole numbers."""
    optional: Sequence[str] = ()
    any_of: Sequence[str] = ()
    """Without one of them at least no row would say anything."""
    taken: Taken[T_co]
    quick: Callable[[], Quick[T_co]] | None = None
    """Asked for where there is a table: it needs the extra."""

    @property
    def columns(self) -> Sequence[str]:
        return (*self.needed, *self.optional)

    def missing(self, names: Iterable[str]) -> str:
        """Of a file's columns those that are needed and aren't there, as words."""
        there = {*names}
        lacking = " and ".join(name for name in self.needed if name not in there)
        return lacking or ("" if there.intersection(self.any_of or there) else " or ".join(self.any_of))

    def ignored(self, names: Iterable[str]) -> Sequence[str]:
        """Those that nothing is read of."""
        return [name for name in names if name and name not in self.columns]


def plain(value: object) -> bool:
    """As nearly all ids are: nothing is wrong with it."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable()


def fault_of(name: str, value: object) -> str | None:
    """Why what stands in a column is no id."""
    if value is None:
        return f"{name} is missing."
    if isinstance(value, bool) or not isinstance(value, str | int):
        return f"{name} is neither text nor a whole number."
    why = fault(str(value))
    return why and f"{name} {why}."
