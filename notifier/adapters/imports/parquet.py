"""Reads Parquet files column by column."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from notifier.adapters.imports.layout import Ignore, Layout, Reject
from notifier.domain.errors import BadImport

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(Generic[T]):
    file: Path
    layout: Layout[T]
    reject: Reject
    at_once: int
    ignore: Ignore

    def behind(self, read: int) -> Iterator[T]:
        """Yield all rows but the first `read`. Raises BadImport if the file is no valid Parquet."""
        try:
            with pq.ParquetFile(self.file) as table:
                self._require(table.schema_arrow)
                self.ignore(self.layout.ignored(table.schema_arrow.names))
                yield from self._rows(table, read)
        except (pa.ArrowException, OSError) as error:
            raise BadImport(f"It is no Parquet, or cut off: {error}") from error

    def _rows(self, table: Any, read: int) -> Iterator[T]:
        quick = self.layout.quick and self.layout.quick()
        there = [name for name in self.layout.columns if name in table.schema_arrow.names]
        passed = 0
        for batch in table.iter_batches(self.at_once, columns=there):
            rows = batch.slice(max(0, read - passed))
            first, passed = passed + batch.num_rows - rows.num_rows, passed + batch.num_rows
            if rows.num_rows:
                converted = quick(rows, first, passed, self.reject) if quick else None
                yield self._taken(rows, first, passed) if converted is None else converted

    def _taken(self, some: Any, first: int, passed: int) -> T:
        columns = [
            _values(some.column(name)) if name in some.schema.names else [None] * some.num_rows
            for name in self.layout.columns
        ]
        return self.layout.taken(enumerate(zip(*columns, strict=True), first + 1), passed, self.reject)

    def _require(self, schema: Any) -> None:
        if missing := self.layout.missing(schema.names):
            raise BadImport(f"Its columns are {', '.join(schema.names)}; {missing} is missing.")
        for name in self.layout.needed:
            kind = schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise BadImport(f"Its column {name} is of type {kind}; text or whole numbers are needed.")


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
        raise BadImport(f"It is no Parquet, or cut off: {error}") from error
