"""A source of rows: a file, or the standard input, in whichever form it has."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from notifier.adapters.imports.layout import Ignore, Layout, Reject
from notifier.adapters.imports.text_files import NEEDS, Form, Lines, unpacked
from notifier.domain.errors import BadImport, Environment

T = TypeVar("T")

PARQUET = "parquet"
FORMS = (*Form, PARQUET)
PACKED = ("gz", "zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Generic[T]):
    behind: Callable[[int], Iterator[T]]
    """All but so many rows that were read before. Raises BadImport where it isn't what it is said to be."""
    size: int | None
    """None of the standard input, or a pipe."""
    place: Callable[[int], int]
    """Of the size, when so many rows were read."""


@contextmanager
def opened(
    file: Path | BinaryIO, form: str, layout: Layout[T], reject: Reject, at_once: int, *, ignore: Ignore = list
) -> Iterator[Source[T]]:
    """Raises BadImport, and Environment without the extra."""
    if form == PARQUET:
        if not isinstance(file, Path) or not file.is_file():
            raise BadImport("Parquet is read from its end; it can't come by the standard input or a pipe.")
        yield _columns(file, layout, reject, at_once, ignore)
        return
    make = partial(Lines, form=Form(form), layout=layout, reject=reject, at_once=at_once, ignore=ignore)
    if isinstance(file, Path):
        with file.open("rb") as packed:
            lines = make(file=unpacked(packed))
            size = file.stat().st_size if packed.seekable() else None
            yield Source(behind=lines.behind, size=size, place=lambda _: packed.tell() if size else 0)
    else:
        lines = make(file=unpacked(file))
        yield Source(behind=lines.behind, size=None, place=lambda _: 0)


def form_of(name: str) -> str:
    """By a file's name. Raises BadImport for a name that doesn't say."""
    endings = name.lower().split(".")[1:]
    if endings and endings[-1] in PACKED:
        endings.pop()
    if endings and endings[-1] in FORMS:
        return endings[-1]
    raise BadImport(f"{name} doesn't say what it is, as .csv, .ndjson or .parquet do; --form does.")


def _columns(file: Path, layout: Layout[T], reject: Reject, at_once: int, ignore: Ignore) -> Source[T]:
    try:
        from notifier.adapters.imports.parquet import Columns, count
    except ImportError:
        raise Environment(NEEDS) from None
    columns = Columns(file=file, layout=layout, reject=reject, at_once=at_once, ignore=ignore)
    return Source(behind=columns.behind, size=count(file), place=lambda read: read)
