"""Rows of an import in transactions of a bounded size, which let others in between them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(each: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(each)
    while batch := list(islice(iterator, size)):
        yield batch
