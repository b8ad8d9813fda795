"""Reads CSV and NDJSON files line by line."""

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

from notifier.adapters.imports.layout import Layout, ParsedRow, Reject, ReportIgnored, UnreadableRow
from notifier.domain.errors import BadImport, UnusableEnvironment

# NDJSON: each line is an object.

MAX_IGNORED_NAMES = 64
"""Once the decoder knows this many ignored names, it ignores all others without a report."""


class LineParser:
    """Parser of NDJSON lines. It reports ignored fields."""

    def __init__(self, layout: Layout[Any], report_ignored: ReportIgnored) -> None:
        self._layout, self._report_ignored = layout, report_ignored
        self._ignored = list[str]()
        self._decode = self._create_decoder()

    def __call__(self, line: str) -> ParsedRow:
        try:
            parsed = self._decode_line(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return UnreadableRow(f"Not valid JSON for {self._layout.row_kind}: {error}.")
        row = msgspec.structs.astuple(parsed)[: len(self._layout.columns)]
        if msgspec.UNSET not in row:
            return row
        names = [name for name, value in zip(self._layout.columns, row, strict=True) if value is not msgspec.UNSET]
        if self._layout.any_of and not {*names}.intersection(self._layout.any_of):
            return UnreadableRow(f"The row sets nothing; {' or '.join(self._layout.any_of)} is required.")
        return [None if value is msgspec.UNSET else value for value in row]

    def _decode_line(self, line: str) -> Any:
        """Decode a line. For an unknown field, create a decoder that skips the field from now on."""
        try:
            return self._decode(line)
        except msgspec.ValidationError:
            if not (unknown_names := self._unknown_names(line)):
                raise
        self._ignored += unknown_names
        self._report_ignored(self._layout.ignored_columns(unknown_names))
        self._decode = self._create_decoder()
        return self._decode(line)

    def _unknown_names(self, line: str) -> list[str]:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return [name for name in names if name not in self._layout.columns and name not in self._ignored]

    def _create_decoder(self) -> Any:
        required: list[tuple[str, Any, Any]] = [
            (name, str | int | None | msgspec.UnsetType, msgspec.UNSET) for name in self._layout.required
        ]
        value_type = str | int | bool | None | msgspec.UnsetType
        optional: list[tuple[str, Any, Any]] = [(name, value_type, msgspec.UNSET) for name in self._layout.optional]
        skipped: list[tuple[str, Any, Any]] = [
            (f"ignored_{n}", msgspec.Raw, msgspec.field(default=msgspec.Raw(), name=name))
            for n, name in enumerate(self._ignored)
        ]
        row = msgspec.defstruct(
            "Row", [*required, *optional, *skipped], forbid_unknown_fields=len(self._ignored) < MAX_IGNORED_NAMES
        )
        return msgspec.json.Decoder(row).decode


T = TypeVar("T")

MAX_LINE_LENGTH = 1 << 16
"""Number of characters at which a line is refused. A binary file may have no line ends."""


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReader(Generic[T]):
    """Reader of one CSV or NDJSON file."""

    file: BinaryIO
    """Decompressed stream."""
    form: Form
    layout: Layout[T]
    reject: Reject
    rows_per_batch: int
    report_ignored: ReportIgnored

    def rows_after(self, rows_read: int) -> Iterator[T]:
        """Yield batches of the rows after the first `rows_read`. Raises BadImport if the file is invalid."""
        text = io.TextIOWrapper(self.file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        numbered_rows = (_csv_rows if self.form is Form.CSV else _ndjson_rows)(
            _checked_lines(text), self.layout, self.report_ignored
        )
        try:
            rows_done = sum(1 for _ in islice(numbered_rows, rows_read))
            while batch := list(islice(numbered_rows, self.rows_per_batch)):
                rows_done += len(batch)
                yield self.layout.read_batch(batch, rows_done, self.reject)
        except (EOFError, BadGzipFile, zlib.error) as error:
            raise BadImport(f"The file can't be decompressed: {error}") from error
        except OSError as error:  # pyarrow's zstd decompressor raises it, too
            raise BadImport(f"The file can't be read: {error}") from error
        finally:
            # The caller owns the file, so leave it open. After an interruption the caller may have closed it already.
            if not text.closed:
                text.detach()


def _checked_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(MAX_LINE_LENGTH):
        if len(line) == MAX_LINE_LENGTH and not line.endswith(("\n", "\r")):
            raise BadImport(f"A line has {MAX_LINE_LENGTH:,} or more characters.")
        yield line


def _csv_rows(
    lines: Iterator[str], layout: Layout[Any], report_ignored: ReportIgnored
) -> Iterator[tuple[int, ParsedRow]]:
    rows = csv.reader(lines)
    try:
        header = [name.strip() for name in next(rows, [])]
        if missing := layout.missing_columns_text(header):
            raise BadImport(
                f"The header has {', '.join(header) or 'nothing'}; {_requirement(layout, missing)} required."
            )
        report_ignored(layout.ignored_columns(header))
        # A missing column is read from an extra empty value at the end of each row.
        positions = [header.index(name) if name in header else -1 for name in layout.columns]
        pick_columns, last_position = itemgetter(*positions), max(positions)
        for row in rows:
            if len(row) > last_position:
                row.append("")
                yield rows.line_num, pick_columns(row)
            else:
                yield rows.line_num, UnreadableRow(f"The row has {len(row)} of {len(header)} columns.") if row else None
    except csv.Error as error:
        raise BadImport(f"Line {rows.line_num} is not valid CSV: {error}.") from error


def _ndjson_rows(
    lines: Iterator[str], layout: Layout[Any], report_ignored: ReportIgnored
) -> Iterator[tuple[int, ParsedRow]]:
    parse_line = LineParser(layout, report_ignored)
    for number, line in enumerate(lines, 1):
        yield number, parse_line(line) if line.strip() else None


def _requirement(layout: Layout[Any], missing: str) -> str:
    """Return the columns that a file needs, with the verb: `a and b are`, or `a or b is`."""
    if missing == " or ".join(layout.any_of):
        return f"{missing} is"
    return f"{' and '.join(layout.required)} {'is' if len(layout.required) == 1 else 'are'}"


# Decompression of gzip and zstd files.

EXTRA_NEEDED = 'Parquet and zstd need an extra: pip install "notifier[import]".'

GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return a decompressed stream if the first bytes are those of gzip or zstd, otherwise the file itself.

    Raises UnusableEnvironment for zstd without the import extra, and BadImport for Parquet.
    """
    first_bytes = file.peek(4) if hasattr(file, "peek") else b""
    if first_bytes.startswith(GZIP_MAGIC):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if first_bytes.startswith(ZSTD_MAGIC):
        return _zstd(file)
    if first_bytes.startswith(PARQUET_MAGIC):
        raise BadImport("The data is Parquet; use --form parquet with a regular file.")
    return file


def _zstd(file: BinaryIO) -> BinaryIO:
    try:
        import pyarrow as pa
    except ImportError:
        raise UnusableEnvironment(EXTRA_NEEDED) from None
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
