"""Rows by the names of their columns. The driver makes a class for every answer, which costs more than most of them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cassandra.query import named_tuple_factory


def rows(columns: Sequence[str], found: Sequence[Sequence[object]]) -> list[Any]:
    """The factory of a session's profiles."""
    return list(map(_named(tuple(columns))._make, found))


@lru_cache(maxsize=512)
def _named(columns: tuple[str, ...]) -> Any:
    """The driver's own class, which has rules for names that Python doesn't take."""
    [row] = named_tuple_factory(columns, [columns])
    return type(row)
