"""Layouts of import files: which columns are read, and how values are parsed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Generic, TypeVar

from notifier.domain.upstream.validation import MAX_ID_LENGTH, id_problem
from notifier.domain.users.quiet_hours import QuietHours, is_known_zone
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

T_co = TypeVar("T_co", covariant=True)

Reject = Callable[[int, str], None]
"""Called with the number of a rejected row, counted from 1, and the reason."""


Ignore = Callable[[Iterable[str]], object]
"""Called with the columns that are not read, as often as they are found."""


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """Placeholder of a row that can't be read."""

    why: str


ParsedRow = Sequence[object] | UnreadableRow | None
"""Values of the layout's columns in order, None for a missing value. An empty line is None as a whole."""

BatchReader = Callable[[Iterable[tuple[int, ParsedRow]], int, Reject], T_co]
"""Converts numbered rows, which end at the given row number. Rejects invalid rows."""

BulkReader = Callable[[Any, int, int, Reject], T_co | None]
"""Converts a slice of a table at once: the rows between two positions. None if each row needs a check of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[T_co]):
    row_kind: str
    """Kind of a row, as the end of a sentence."""
    required: Sequence[str]
    """Id columns: text, or whole numbers."""
    optional: Sequence[str] = ()
    any_of: Sequence[str] = ()
    """At least one of these columns is needed, because rows would otherwise say nothing."""
    read_batch: BatchReader[T_co]
    bulk_reader: Callable[[], BulkReader[T_co]] | None = None
    """Called only for a table, because it needs the import extra."""

    @property
    def columns(self) -> Sequence[str]:
        return (*self.required, *self.optional)

    def missing(self, names: Iterable[str]) -> str:
        """Return the needed columns that a file lacks, as text."""
        there = {*names}
        lacking = " and ".join(name for name in self.required if name not in there)
        return lacking or ("" if there.intersection(self.any_of or there) else " or ".join(self.any_of))

    def ignored(self, names: Iterable[str]) -> Sequence[str]:
        """Return the columns that are not read."""
        return [name for name in names if name and name not in self.columns]


def is_plain_id(value: object) -> bool:
    """Return whether the value is a valid text id, as nearly all are."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def fault_of(name: str, value: object) -> str | None:
    """Return why a value is no id, or None if it is one."""
    if value is None:
        return f"{name} is missing."
    if isinstance(value, bool) or not isinstance(value, str | int):
        return f"{name} must be text or a whole number."
    why = id_problem(str(value))
    return why and f"{name} {why}."


# Values of the columns that are no ids: booleans, times and hours. An empty value is None.

T = TypeVar("T")

LONGEST_ZONE = 64
"""Characters. The longest IANA name has 32."""
_SHOWN = 40
"""Characters of an invalid value in a message: enough to find it."""
_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


class InvalidValue(ValueError):
    """Reason why a value is invalid, as a sentence."""


def accepted_rows(
    parsed: Iterable[tuple[int, ParsedRow]], reject: Reject, read: Callable[[Iterable[object]], T]
) -> Iterable[T]:
    """Yield the rows that can be read. Reject the others."""
    for number, row in parsed:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.why)
            continue
        try:
            yield read(row)
        except InvalidValue as invalid:
            reject(number, str(invalid))


def flag(name: str, value: object) -> bool | None:
    text = _text(value).lower()
    if not text:
        return None
    if text not in _YES | _NO:
        raise InvalidValue(f"{name} is {_shown(value)}; it must be true, false or empty.")
    return text in _YES


def moment(name: str, value: object) -> datetime | None:
    """Parse a time. Raises Unfit if it has no time zone."""
    if not (text := _text(value)):
        return None
    try:
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(
            f"{name} is {_shown(value)}; it must be true, or a time such as 2026-01-31T09:00:00Z."
        ) from None
    if parsed.tzinfo is None:
        raise InvalidValue(f"{name} has no time zone.")
    if not ALWAYS.year <= parsed.year < NEVER.year:
        raise InvalidValue(f"{name} is {_shown(value)}; the year is out of range.")
    return parsed.astimezone(UTC)


def hours(name: str, value: object) -> QuietHours | None:
    if not (text := _text(value)):
        return None
    start, _, end = text.partition("-")
    parsed = QuietHours(start=_time(name, value, start), end=_time(name, value, end))
    if parsed.start == parsed.end:
        raise InvalidValue(f"{name} must begin and end at different times.")
    return parsed


def zone(name: str, value: object) -> str | None:
    if not (text := _text(value)):
        return None
    if len(text) > LONGEST_ZONE or not is_known_zone(text):
        raise InvalidValue(f"{name} is {_shown(value)}; it must be an IANA time zone such as Europe/Berlin.")
    return text


def one_of(name: str, value: object, choice: Iterable[str]) -> str | None:
    if not (text := _text(value)):
        return None
    if text not in {*choice}:
        raise InvalidValue(f"{name} is {_shown(value)}; it must be {', '.join(choice)} or empty.")
    return text


def _time(name: str, value: object, text: str) -> time:
    try:
        parsed = time.fromisoformat(text.strip())
    except ValueError:
        parsed = None
    if parsed is None or f"{parsed:%H:%M}" != text.strip():
        raise InvalidValue(f"{name} is {_shown(value)}; it must be written like 22:00-07:00.")
    return parsed


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
