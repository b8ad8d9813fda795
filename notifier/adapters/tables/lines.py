"""Who follows whom, line by line: CSV or NDJSON."""

import csv
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from gzip import BadGzipFile
from itertools import islice
from typing import BinaryIO

import msgspec

from notifier.adapters.tables.edge import COLUMNS, Found, Reject, Unreadable, taken
from notifier.domain.errors import BadImport
from notifier.ports.edges import Rows

LONGEST = 1 << 16
"""Characters of a line: what isn't text at all has no lines."""


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


class _Edge(msgspec.Struct):
    follower: str | int | None = None
    followed: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    file: BinaryIO
    """Unpacked."""
    form: Form
    reject: Reject
    at_once: int

    def behind(self, read: int) -> Iterator[Rows]:
        """All but the rows that were read before. Raises BadImport where the file isn't what it is said to be."""
        text = io.TextIOWrapper(self.file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        lines = _csv(_short(text)) if self.form is Form.CSV else _ndjson(_short(text))
        try:
            passed = sum(1 for _ in islice(lines, read))
            while some := list(islice(lines, self.at_once)):
                passed += len(some)
                yield taken(some, passed, self.reject)
        except (EOFError, BadGzipFile, zlib.error) as error:
            raise BadImport(f"It can't be unpacked: {error}") from error
        except OSError as error:  # also of an unpacker that has no error of its own
            raise BadImport(f"It can't be read: {error}") from error
        finally:
            text.detach()  # the file is its opener's


def _short(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(("\n", "\r")):
            raise BadImport(f"A line has {LONGEST:,} characters and more.")
        yield line


def _csv(text: Iterator[str]) -> Iterator[tuple[int, Found]]:
    rows = csv.reader(text)
    try:
        header = [name.strip() for name in next(rows, [])]
        if not {*COLUMNS} <= {*header}:
            named = ", ".join(header) or "nothing"
            raise BadImport(f"The first line names {named}; {' and '.join(COLUMNS)} are needed.")
        of, to = map(header.index, COLUMNS)
        wide = max(of, to)
        for row in rows:
            if len(row) > wide:
                yield rows.line_num, (row[of], row[to])
            else:
                yield rows.line_num, Unreadable(f"It has {len(row)} of {len(header)} columns.") if row else None
    except csv.Error as error:
        raise BadImport(f"Line {rows.line_num} is no CSV: {error}.") from error


def _ndjson(text: Iterator[str]) -> Iterator[tuple[int, Found]]:
    decode = msgspec.json.Decoder(_Edge).decode
    for number, line in enumerate(text, 1):
        if not line.strip():
            yield number, None
            continue
        try:
            edge = decode(line)
        except (msgspec.MsgspecError, UnicodeError) as error:
            yield number, Unreadable(f"It is no JSON of a follow: {error}.")
        else:
            yield number, (edge.follower, edge.followed)
