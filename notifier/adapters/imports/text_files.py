"""Rows, line by line: CSV or NDJSON."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from gzip import BadGzipFile
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, Generic, TypeVar, cast

import msgspec

from notifier.adapters.imports.layout import Found, Ignore, Layout, Reject, UnreadableRow
from notifier.domain.errors import BadImport, Environment

# A row as an object: a line of NDJSON.

MOST_IGNORED = 64
"""Names; a file of which each line has others is read all the same."""


class Objects:
    """Reads lines, and tells of each member that nothing is read of once."""

    def __init__(self, layout: Layout[Any], ignore: Ignore) -> None:
        self._layout, self._ignore = layout, ignore
        self._ignored = list[str]()
        self._decode = self._decoder()

    def __call__(self, line: str) -> Found:
        try:
            found = self._decoded(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return UnreadableRow(f"It is no JSON of {self._layout.of}: {error}.")
        row = msgspec.structs.astuple(found)[: len(self._layout.columns)]
        if msgspec.UNSET not in row:
            return row
        named = [name for name, value in zip(self._layout.columns, row, strict=True) if value is not msgspec.UNSET]
        if self._layout.any_of and not {*named}.intersection(self._layout.any_of):
            return UnreadableRow(f"It says nothing; {' or '.join(self._layout.any_of)} is needed.")
        return [None if value is msgspec.UNSET else value for value in row]

    def _decoded(self, line: str) -> Any:
        """A member that wasn't known makes a reader of its own, which passes over it: lines like this one are as quick
        as others from then on."""
        try:
            return self._decode(line)
        except msgspec.ValidationError:
            if not (new := self._unknown(line)):
                raise
        self._ignored += new
        self._ignore(self._layout.ignored(new))
        self._decode = self._decoder()
        return self._decode(line)

    def _unknown(self, line: str) -> list[str]:
        named = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return [name for name in named if name not in self._layout.columns and name not in self._ignored]

    def _decoder(self) -> Any:
        ids: list[tuple[str, Any, Any]] = [
            (name, str | int | None | msgspec.UnsetType, msgspec.UNSET) for name in self._layout.needed
        ]
        others = str | int | bool | None | msgspec.UnsetType
        said: list[tuple[str, Any, Any]] = [(name, others, msgspec.UNSET) for name in self._layout.optional]
        passed: list[tuple[str, Any, Any]] = [
            (f"ignored_{n}", msgspec.Raw, msgspec.field(default=msgspec.Raw(), name=name))
            for n, name in enumerate(self._ignored)
        ]
        row = msgspec.defstruct("Row", [*ids, *said, *passed], forbid_unknown_fields=len(self._ignored) < MOST_IGNORED)
        return msgspec.json.Decoder(row).decode


T = TypeVar("T")

LONGEST = 1 << 16
"""Characters of a line: what isn't text at all has no lines."""


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Generic[T]):
    file: BinaryIO
    """Unpacked."""
    form: Form
    layout: Layout[T]
    reject: Reject
    at_once: int
    ignore: Ignore

    def behind(self, read: int) -> Iterator[T]:
        """All but the rows that were read before. Raises BadImport where the file isn't what it is said to be."""
        text = io.TextIOWrapper(self.file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        lines = (_csv if self.form is Form.CSV else _ndjson)(_short(text), self.layout, self.ignore)
        try:
            passed = sum(1 for _ in islice(lines, read))
            while some := list(islice(lines, self.at_once)):
                passed += len(some)
                yield self.layout.taken(some, passed, self.reject)
        except (EOFError, BadGzipFile, zlib.error) as error:
            raise BadImport(f"It can't be unpacked: {error}") from error
        except OSError as error:  # also of an unpacker that has no error of its own
            raise BadImport(f"It can't be read: {error}") from error
        finally:
            if not text.closed:  # the file is its opener's, who closes it first where the reader was cut off
                text.detach()


def _short(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(("\n", "\r")):
            raise BadImport(f"A line has {LONGEST:,} characters and more.")
        yield line


def _csv(text: Iterator[str], layout: Layout[Any], ignore: Ignore) -> Iterator[tuple[int, Found]]:
    rows = csv.reader(text)
    try:
        header = [name.strip() for name in next(rows, [])]
        if missing := layout.missing(header):
            raise BadImport(
                f"The first line names {', '.join(header) or 'nothing'}; {_needed(layout, missing)} needed."
            )
        ignore(layout.ignored(header))
        # A column that isn't there is the one behind the last, which each row is given: empty.
        places = [header.index(name) if name in header else -1 for name in layout.columns]
        pick, wide = itemgetter(*places), max(places)
        for row in rows:
            if len(row) > wide:
                row.append("")
                yield rows.line_num, pick(row)
            else:
                yield rows.line_num, UnreadableRow(f"It has {len(row)} of {len(header)} columns.") if row else None
    except csv.Error as error:
        raise BadImport(f"Line {rows.line_num} is no CSV: {error}.") from error


def _ndjson(text: Iterator[str], layout: Layout[Any], ignore: Ignore) -> Iterator[tuple[int, Found]]:
    read = Objects(layout, ignore)
    for number, line in enumerate(text, 1):
        yield number, read(line) if line.strip() else None


def _needed(layout: Layout[Any], missing: str) -> str:
    """All that are, so that one needn't look for the next."""
    if missing == " or ".join(layout.any_of):
        return f"{missing} is"
    return f"{' and '.join(layout.needed)} {'is' if len(layout.needed) == 1 else 'are'}"


# Files that were packed with gzip or zstd, as one reads them.

NEEDS = 'Parquet and zstd need an extra: pip install "notifier[import]".'

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
"""What their files begin with."""


def unpacked(file: BinaryIO) -> BinaryIO:
    """By what it begins with; a file that isn't packed is read as it is. Raises Environment without the extra, and
    BadImport for what has no lines."""
    begins = file.peek(4) if hasattr(file, "peek") else b""
    if begins.startswith(GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if begins.startswith(ZSTD):
        return _zstd(file)
    if begins.startswith(PARQUET):
        raise BadImport("It is Parquet, which --form parquet reads, from a file alone.")
    return file


def _zstd(file: BinaryIO) -> BinaryIO:
    try:
        import pyarrow as pa
    except ImportError:
        raise Environment(NEEDS) from None
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
