"""Read Parquet files in batches, and whole columns of follows if possible."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from notifier.adapters.imports.account_follow_preference_layouts import FOLLOW_COLUMNS, SELF_FOLLOW
from notifier.adapters.imports.layout import Layout, Reject, ReportIgnored
from notifier.domain.audience.user_ids_to_members import HIGHEST_ID_NUMBER
from notifier.domain.errors import BadImport
from notifier.domain.upstream.validation import MAX_ID_LENGTH
from notifier.ports.import_batches_and_key_sort import FollowEdges, NumericIdFollowEdges

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(Generic[T]):
    file: Path
    layout: Layout[T]
    reject: Reject
    rows_per_batch: int
    report_ignored: ReportIgnored

    def rows_after(self, rows_read: int) -> Iterator[T]:
        """Yield batches of the rows after the first `rows_read`. Raises BadImport if the file is invalid."""
        try:
            with pq.ParquetFile(self.file) as parquet_file:
                self._require_columns(parquet_file.schema_arrow)
                self.report_ignored(self.layout.ignored_columns(parquet_file.schema_arrow.names))
                yield from self._rows(parquet_file, rows_read)
        except (pa.ArrowException, OSError) as error:
            raise BadImport(f"Not a Parquet file, or truncated: {error}") from error

    def _rows(self, parquet_file: Any, rows_read: int) -> Iterator[T]:
        bulk_reader = self.layout.load_bulk_reader and self.layout.load_bulk_reader()
        present_columns = [name for name in self.layout.columns if name in parquet_file.schema_arrow.names]
        rows_done = 0
        for batch in parquet_file.iter_batches(self.rows_per_batch, columns=present_columns):
            rows = batch.slice(max(0, rows_read - rows_done))
            rows_before, rows_done = rows_done + batch.num_rows - rows.num_rows, rows_done + batch.num_rows
            if rows.num_rows:
                converted = bulk_reader(rows, rows_before, rows_done, self.reject) if bulk_reader else None
                yield self._read_batch(rows, rows_before, rows_done) if converted is None else converted

    def _read_batch(self, batch: Any, rows_before: int, rows_done: int) -> T:
        columns = [
            _column_values(batch.column(name)) if name in batch.schema.names else [None] * batch.num_rows
            for name in self.layout.columns
        ]
        return self.layout.read_batch(enumerate(zip(*columns, strict=True), rows_before + 1), rows_done, self.reject)

    def _require_columns(self, schema: Any) -> None:
        if missing := self.layout.missing_columns_text(schema.names):
            raise BadImport(f"The file has the columns {', '.join(schema.names)}; {missing} is missing.")
        for name in self.layout.required:
            type_ = schema.field(name).type
            type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
            if not (pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_)):
                raise BadImport(f"Column {name} has type {type_}; it must be text or whole numbers.")


def _column_values(column: Any) -> list[Any]:
    """Return the values of the column, as text if it has a time that Python's datetime can't represent."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = pc.cast(column, pa.string()).to_pylist()
    return values


def count_rows(file: Path) -> int:
    """Return the number of rows according to the file's metadata. Raises BadImport."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise BadImport(f"Not a Parquet file, or truncated: {error}") from error


# Follows in bulk: both columns hold whole numbers, or both hold valid text ids.


def bulk_follows(
    batch: Any, rows_before: int, rows_done: int, reject: Reject
) -> FollowEdges | NumericIdFollowEdges | None:
    columns = [batch.column(name) for name in FOLLOW_COLUMNS]
    return _numeric_edges(columns, rows_before, rows_done, reject) or _text_id_edges(columns, rows_done)


def _numeric_edges(columns: list[Any], rows_before: int, rows_done: int, reject: Reject) -> NumericIdFollowEdges | None:
    """Convert columns of whole numbers from 0 to HIGHEST_ID_NUMBER. Return None for other columns.

    A row in which an account follows itself is rejected, but the result still contains the row.
    """
    if any(column.null_count or not pa.types.is_integer(column.type) for column in columns):
        return None
    followers, followed = (column.to_numpy() for column in columns)
    if max(followers.max(), followed.max()) > HIGHEST_ID_NUMBER or min(followers.min(), followed.min()) < 0:
        return None
    for index in np.flatnonzero(followers == followed).tolist():
        reject(rows_before + index + 1, SELF_FOLLOW)
    return NumericIdFollowEdges(
        followers=followers.astype(np.int64), followed=followed.astype(np.int64), rows_read=rows_done
    )


def _text_id_edges(columns: list[Any], rows_done: int) -> FollowEdges | None:
    """Convert columns of valid text ids. Return None for other columns, and if an account follows itself."""
    if not all(map(_has_plainly_valid_text_ids, columns)) or pc.any(pc.equal(*columns)).as_py():
        return None
    followers, followed = (column.to_pylist() for column in columns)
    return FollowEdges(followers=followers, followed=followed, rows_read=rows_done)


def _has_plainly_valid_text_ids(column: Any) -> bool:
    """Return True for nearly all columns of valid text ids, and for no others. After False, each row is checked."""
    if column.null_count or not pa.types.is_string(column.type):
        return False
    lengths = pc.min_max(pc.utf8_length(column)).as_py()
    printable = pc.all(pc.utf8_is_printable(column)).as_py()
    return bool(printable and lengths["min"] > 0 and lengths["max"] <= MAX_ID_LENGTH)
