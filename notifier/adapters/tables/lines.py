"""Rows, line by line: CSV or NDJSON."""

import csv
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from gzip import BadGzipFile
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, Generic, TypeVar

from notifier.adapters.tables.layout import Found, Ignore, Layout, Reject, Unreadable
from notifier.adapters.tables.objects import Objects
from notifier.domain.errors import BadImport

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
                yield rows.line_num, Unreadable(f"It has {len(row)} of {len(header)} columns.") if row else None
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
