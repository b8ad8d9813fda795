"""Reads Parquet files column by column, and follows in bulk from such columns."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from notifier.adapters.imports.datasets import COLUMNS, SELF_FOLLOW
from notifier.adapters.imports.layout import Ignore, Layout, Reject
from notifier.domain.audience.id_ranges import HIGHEST_NUMBER
from notifier.domain.errors import BadImport
from notifier.domain.upstream.validation import MAX_ID_LENGTH
from notifier.ports.imports import FollowEdges, NumberedFollowEdges

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(Generic[T]):
    file: Path
    layout: Layout[T]
    reject: Reject
    at_once: int
    ignore: Ignore

    def after(self, read: int) -> Iterator[T]:
        """Yield all rows but the first `read`. Raises BadImport if the file is no valid Parquet."""
        try:
            with pq.ParquetFile(self.file) as table:
                self._require(table.schema_arrow)
                self.ignore(self.layout.ignored(table.schema_arrow.names))
                yield from self._rows(table, read)
        except (pa.ArrowException, OSError) as error:
            raise BadImport(f"Not a Parquet file, or truncated: {error}") from error

    def _rows(self, table: Any, read: int) -> Iterator[T]:
        bulk_reader = self.layout.bulk_reader and self.layout.bulk_reader()
        there = [name for name in self.layout.columns if name in table.schema_arrow.names]
        passed = 0
        for batch in table.iter_batches(self.at_once, columns=there):
            rows = batch.slice(max(0, read - passed))
            first, passed = passed + batch.num_rows - rows.num_rows, passed + batch.num_rows
            if rows.num_rows:
                converted = bulk_reader(rows, first, passed, self.reject) if bulk_reader else None
                yield self._read_batch(rows, first, passed) if converted is None else converted

    def _read_batch(self, batch: Any, first: int, passed: int) -> T:
        columns = [
            _values(batch.column(name)) if name in batch.schema.names else [None] * batch.num_rows
            for name in self.layout.columns
        ]
        return self.layout.read_batch(enumerate(zip(*columns, strict=True), first + 1), passed, self.reject)

    def _require(self, schema: Any) -> None:
        if missing := self.layout.missing(schema.names):
            raise BadImport(f"The file has the columns {', '.join(schema.names)}; {missing} is missing.")
        for name in self.layout.required:
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise BadImport(f"Column {name} has type {kind}; it must be text or whole numbers.")


def _values(column: Any) -> list[Any]:
    """Return the values. They are text if a time has no Python date, or is more precise than Python's times."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = pc.cast(column, pa.string()).to_pylist()
    return values


def count(file: Path) -> int:
    """Return the number of rows according to the file's metadata. Raises BadImport."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise BadImport(f"Not a Parquet file, or truncated: {error}") from error


# Follows in bulk: columns of whole numbers, or of valid names.


def bulk_follows(batch: Any, first: int, passed: int, reject: Reject) -> FollowEdges | NumberedFollowEdges | None:
    columns = [batch.column(name) for name in COLUMNS]
    return _numbers(columns, first, passed, reject) or _names(columns, passed)


def _numbers(columns: list[Any], first: int, passed: int, reject: Reject) -> NumberedFollowEdges | None:
    """Take columns of whole numbers that may be in an id range. Return None for other columns."""
    if any(column.null_count or not pa.types.is_integer(column.type) for column in columns):
        return None
    followers, followed = (column.to_numpy() for column in columns)
    if max(followers.max(), followed.max()) > HIGHEST_NUMBER or min(followers.min(), followed.min()) < 0:
        return None
    for place in np.flatnonzero(followers == followed).tolist():
        reject(first + place + 1, SELF_FOLLOW)
    return NumberedFollowEdges(
        followers=followers.astype(np.int64), followed=followed.astype(np.int64), rows_read=passed
    )


def _names(columns: list[Any], passed: int) -> FollowEdges | None:
    if not all(map(_plain, columns)) or pc.any(pc.equal(*columns)).as_py():
        return None
    followers, followed = (column.to_pylist() for column in columns)
    return FollowEdges(followers=followers, followed=followed, rows_read=passed)


def _plain(column: Any) -> bool:
    """Return whether the column has only valid names, as nearly all columns do."""
    if column.null_count or not pa.types.is_string(column.type):
        return False
    lengths = pc.min_max(pc.utf8_length(column)).as_py()
    printable = pc.all(pc.utf8_is_printable(column)).as_py()
    return bool(printable and lengths["min"] > 0 and lengths["max"] <= MAX_ID_LENGTH)
