"""Layouts of import files: their columns, and how values are parsed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Generic, TypeVar

from notifier.domain.upstream.validation import MAX_ID_LENGTH, id_problem
from notifier.domain.users.quiet_hours import QuietHours, is_known_zone
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

T_co = TypeVar("T_co", covariant=True)

Reject = Callable[[int, str], None]
"""Called with the number of a rejected row and the reason.

In a text file, the number is that of the row's last line. Rows of a Parquet file are numbered from 1.
"""


ReportIgnored = Callable[[Iterable[str]], object]
"""Called with the names of columns that are not read. There may be none."""


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    reason: str


ParsedRow = Sequence[object] | UnreadableRow | None
"""Values of the layout's columns in order; a missing value is None or empty. The row of an empty line is None."""

BatchReader = Callable[[Iterable[tuple[int, ParsedRow]], int, Reject], T_co]
"""Converts a batch.

The arguments are the numbered rows, the number of rows read so far (including these), and a callback for rejects.
"""

BulkReader = Callable[[Any, int, int, Reject], T_co | None]
"""Converts a Parquet batch as a whole, or returns None if the rows must be checked one by one.

The arguments are the batch, the number of rows before it, the number of rows up to its end, and a callback for rejects.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Generic[T_co]):
    """Columns of a kind of import file, and the function that converts their values."""

    row_kind: str
    """Kind of a row with its article, as messages name it: `a follow`."""
    required: Sequence[str]
    """Required columns. They hold ids: text, or whole numbers."""
    optional: Sequence[str] = ()
    any_of: Sequence[str] = ()
    """At least one of these columns is required: a row without any of them sets nothing."""
    read_batch: BatchReader[T_co]
    load_bulk_reader: Callable[[], BulkReader[T_co]] | None = None
    """Loads the reader of whole batches, which needs the import extra. Called only for Parquet."""

    @property
    def columns(self) -> Sequence[str]:
        return (*self.required, *self.optional)

    def missing_columns_text(self, names: Iterable[str]) -> str:
        """Return the required columns that a file lacks, as text; empty if it lacks none."""
        present = {*names}
        lacking = " and ".join(name for name in self.required if name not in present)
        return lacking or ("" if present.intersection(self.any_of or present) else " or ".join(self.any_of))

    def ignored_columns(self, names: Iterable[str]) -> Sequence[str]:
        return [name for name in names if name and name not in self.columns]


def is_plainly_valid_text_id(value: object) -> bool:
    """Return True for nearly all valid text ids, and for nothing else. If the result is False, `id_fault` decides."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def id_fault(name: str, value: object) -> str | None:
    if value is None:
        return f"{name} is missing."
    if isinstance(value, bool) or not isinstance(value, str | int):
        return f"{name} must be text or a whole number."
    reason = id_problem(str(value))
    return reason and f"{name} {reason}."


# Parsers of the columns that hold no ids. They return None for an empty value.

T = TypeVar("T")

MAX_ZONE_LENGTH = 64
"""Maximum characters of a time zone. The longest IANA name has 32."""
_MAX_SHOWN_LENGTH = 40
"""Maximum characters of an invalid value in a message: enough to find it in the file."""
_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


class InvalidValue(ValueError):
    """Reason why a value is invalid, as a sentence."""


def accepted_rows(
    numbered_rows: Iterable[tuple[int, ParsedRow]], reject: Reject, parse_row: Callable[[Iterable[object]], T]
) -> Iterable[T]:
    for number, row in numbered_rows:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.reason)
            continue
        try:
            yield parse_row(row)
        except InvalidValue as invalid:
            reject(number, str(invalid))


def parse_bool(name: str, value: object) -> bool | None:
    text = _text(value).lower()
    if not text:
        return None
    if text not in _YES | _NO:
        raise InvalidValue(f"{name} is {_shortened(value)}; it must be true, false or empty.")
    return text in _YES


_VALID_YEARS = range(ALWAYS.year, NEVER.year)


def parse_time(name: str, value: object, *, expected: str) -> datetime | None:
    """Parse a time. `expected` describes a valid value, for the message of an InvalidValue."""
    if not (text := _text(value)):
        return None
    try:
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"{name} is {_shortened(value)}; it must be {expected}.") from None
    if parsed.tzinfo is None:
        raise InvalidValue(f"{name} has no time zone.")
    if parsed.year not in _VALID_YEARS:
        raise InvalidValue(f"{name} is {_shortened(value)}; the year is out of range.")
    return parsed.astimezone(UTC)


def parse_quiet_hours(name: str, value: object) -> QuietHours | None:
    if not (text := _text(value)):
        return None
    start, _, end = text.partition("-")
    parsed = QuietHours(start=_time(name, value, start), end=_time(name, value, end))
    if parsed.start == parsed.end:
        raise InvalidValue(f"{name} must begin and end at different times.")
    return parsed


def parse_zone(name: str, value: object) -> str | None:
    if not (text := _text(value)):
        return None
    if len(text) > MAX_ZONE_LENGTH or not is_known_zone(text):
        raise InvalidValue(f"{name} is {_shortened(value)}; it must be an IANA time zone such as Europe/Berlin.")
    return text


def parse_choice(name: str, value: object, choices: Iterable[str]) -> str | None:
    if not (text := _text(value)):
        return None
    if text not in {*choices}:
        raise InvalidValue(f"{name} is {_shortened(value)}; it must be {', '.join(choices)} or empty.")
    return text


def _time(name: str, value: object, text: str) -> time:
    try:
        parsed = time.fromisoformat(text.strip())
    except ValueError:
        parsed = None
    if parsed is None or f"{parsed:%H:%M}" != text.strip():
        raise InvalidValue(f"{name} is {_shortened(value)}; it must be written like 22:00-07:00.")
    return parsed


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _shortened(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…")
