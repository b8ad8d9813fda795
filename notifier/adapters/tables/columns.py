"""Who follows whom, column by column: Parquet."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from notifier.adapters.tables.edge import COLUMNS, HIMSELF, Reject, taken
from notifier.domain.errors import BadImport
from notifier.domain.event import LONGEST_ID
from notifier.domain.numbers import HIGHEST
from notifier.ports.edges import Numbers, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    file: Path
    reject: Reject
    at_once: int

    def behind(self, read: int) -> Iterator[Rows | Numbers]:
        """All but the rows that were read before. Raises BadImport where the file isn't what it is said to be."""
        try:
            with pq.ParquetFile(self.file) as table:
                _require(table.schema_arrow)
                yield from self._rows(table, read)
        except (pa.ArrowException, OSError) as error:
            raise BadImport(f"It is no Parquet, or cut off: {error}") from error

    def _rows(self, table: Any, read: int) -> Iterator[Rows | Numbers]:
        passed = 0
        for batch in table.iter_batches(self.at_once, columns=list(COLUMNS)):
            some = batch.slice(max(0, read - passed))
            first, passed = passed + batch.num_rows - some.num_rows, passed + batch.num_rows
            if some.num_rows:
                yield self._numbers(some, first, passed) or self._taken(some, first, passed)

    def _numbers(self, some: Any, first: int, passed: int) -> Numbers | None:
        """Of whole numbers that may be in a range; anything else is looked at row by row."""
        columns = [some.column(name) for name in COLUMNS]
        if any(column.null_count or not pa.types.is_integer(column.type) for column in columns):
            return None
        followers, followed = (column.to_numpy() for column in columns)
        if max(followers.max(), followed.max()) > HIGHEST or min(followers.min(), followed.min()) < 0:
            return None
        for place in np.flatnonzero(followers == followed).tolist():
            self.reject(first + place + 1, HIMSELF)
        return Numbers(followers=followers.astype(np.int64), followed=followed.astype(np.int64), read=passed)

    def _taken(self, some: Any, first: int, passed: int) -> Rows:
        columns = [some.column(name) for name in COLUMNS]
        followers, followed = (column.to_pylist() for column in columns)
        if all(map(_plain, columns)) and not pc.any(pc.equal(*columns)).as_py():
            return Rows(followers=followers, followed=followed, read=passed)
        return taken(enumerate(zip(followers, followed, strict=True), first + 1), passed, self.reject)


def _plain(column: Any) -> bool:
    """Of names with which nothing is wrong, as nearly all are."""
    if column.null_count or not pa.types.is_string(column.type):
        return False
    lengths = pc.min_max(pc.utf8_length(column)).as_py()
    printable = pc.all(pc.utf8_is_printable(column)).as_py()
    return bool(printable and lengths["min"] > 0 and lengths["max"] <= LONGEST_ID)


def count(file: Path) -> int:
    """Rows, by the file's own word."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise BadImport(f"It is no Parquet, or cut off: {error}") from error


def _require(schema: Any) -> None:
    if missing := [name for name in COLUMNS if name not in schema.names]:
        raise BadImport(f"Its columns are {', '.join(schema.names)}; {' and '.join(missing)} is missing.")
    for name in COLUMNS:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise BadImport(f"Its column {name} is of type {kind}; text or whole numbers are needed.")
