"""What the rows of a file have in them: which columns are read, and what is made of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Generic, TypeVar

from notifier.domain.upstream.validation import LONGEST_ID, fault
from notifier.domain.users.quiet_hours import Hours, known
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

T_co = TypeVar("T_co", covariant=True)

Reject = Callable[[int, str], None]
"""A row, counted from 1, and why it isn't taken."""


Ignore = Callable[[Iterable[str]], object]
"""Is told of columns that nothing is read of; of the same ones as often as they are found."""


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """What stands in a row's place."""

    why: str


Found = Sequence[object] | UnreadableRow | None
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


# What stands in a column beside the ids: yes and no, moments and hours; nothing where it is empty.

T = TypeVar("T")

LONGEST_ZONE = 64
"""Letters; the longest name of the IANA has 32."""
_SHOWN = 40
"""Characters of what can't be read: as much as one finds it by."""
_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


class Unfit(ValueError):
    """Why a value can't be taken, as a sentence."""


def each(found: Iterable[tuple[int, Found]], reject: Reject, read: Callable[[Iterable[object]], T]) -> Iterable[T]:
    """Of numbered rows those that can be taken; the others are told."""
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.why)
            continue
        try:
            yield read(row)
        except Unfit as unfit:
            reject(number, str(unfit))


def flag(name: str, value: object) -> bool | None:
    said = _text(value).lower()
    if not said:
        return None
    if said not in _YES | _NO:
        raise Unfit(f"{name} is {_shown(value)}; true, false or nothing is needed.")
    return said in _YES


def moment(name: str, value: object) -> datetime | None:
    """With its time zone."""
    if not (said := _text(value)):
        return None
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(said)
    except ValueError:
        raise Unfit(f"{name} is {_shown(value)}; true, or a moment as 2026-01-31T09:00:00Z is needed.") from None
    if found.tzinfo is None:
        raise Unfit(f"{name} has no time zone.")
    if not ALWAYS.year <= found.year < NEVER.year:
        raise Unfit(f"{name} is {_shown(value)}; no clock ever tells it.")
    return found.astimezone(UTC)


def hours(name: str, value: object) -> Hours | None:
    if not (said := _text(value)):
        return None
    start, _, end = said.partition("-")
    found = Hours(start=_time(name, value, start), end=_time(name, value, end))
    if found.start == found.end:
        raise Unfit(f"{name} begins and ends at different times.")
    return found


def zone(name: str, value: object) -> str | None:
    if not (said := _text(value)):
        return None
    if len(said) > LONGEST_ZONE or not known(said):
        raise Unfit(f"{name} is {_shown(value)}; a name of the IANA is needed, as Europe/Berlin.")
    return said


def one_of(name: str, value: object, choice: Iterable[str]) -> str | None:
    if not (said := _text(value)):
        return None
    if said not in {*choice}:
        raise Unfit(f"{name} is {_shown(value)}; {', '.join(choice)} or nothing is needed.")
    return said


def _time(name: str, value: object, said: str) -> time:
    try:
        found = time.fromisoformat(said.strip())
    except ValueError:
        found = None
    if found is None or f"{found:%H:%M}" != said.strip():
        raise Unfit(f"{name} is {_shown(value)}; 22:00-07:00 is how it is written.")
    return found


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _shown(value: object) -> str:
    said = str(value)
    return repr(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…")
