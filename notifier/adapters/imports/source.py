"""Import sources: files or standard input, in any supported form."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import numpy as np

from notifier.adapters.imports.layout import Ignore, Layout, Reject
from notifier.adapters.imports.text_files import EXTRA_NEEDED, Form, TextReader, decompressed
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.follow_import import HALF_KEY_BITS, Keys, merge_limit, merge_runs
from notifier.domain.errors import BadImport, Environment, Full

T = TypeVar("T")

PARQUET = "parquet"
FORMS = (*Form, PARQUET)
PACKED = ("gz", "zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Generic[T]):
    after: Callable[[int], Iterator[T]]
    """Yields all rows but the given number of first ones. Raises BadImport if the input is invalid."""
    size: int | None
    """None for the standard input and pipes."""
    position_of: Callable[[int], int]
    """Position within `size` after the given number of rows."""


@contextmanager
def opened(
    file: Path | BinaryIO, form: str, layout: Layout[T], reject: Reject, at_once: int, *, ignore: Ignore = list
) -> Iterator[Source[T]]:
    """Open a source. Raises BadImport, and Environment without the import extra."""
    if form == PARQUET:
        if not isinstance(file, Path) or not file.is_file():
            raise BadImport("Parquet needs a regular file; standard input and pipes can't be used.")
        yield _columns(file, layout, reject, at_once, ignore)
        return
    make = partial(TextReader, form=Form(form), layout=layout, reject=reject, at_once=at_once, ignore=ignore)
    if isinstance(file, Path):
        with file.open("rb") as packed:
            lines = make(file=decompressed(packed))
            size = file.stat().st_size if packed.seekable() else None
            yield Source(after=lines.after, size=size, position_of=lambda _: packed.tell() if size else 0)
    else:
        lines = make(file=decompressed(file))
        yield Source(after=lines.after, size=None, position_of=lambda _: 0)


def form_of(name: str) -> str:
    """Return the form by a file's name. Raises BadImport if the name has no known ending."""
    endings = name.lower().split(".")[1:]
    if endings and endings[-1] in PACKED:
        endings.pop()
    if endings and endings[-1] in FORMS:
        return endings[-1]
    raise BadImport(f"The format of {name} is unknown; name it .csv, .ndjson or .parquet, or set --form.")


def _columns(file: Path, layout: Layout[T], reject: Reject, at_once: int, ignore: Ignore) -> Source[T]:
    try:
        from notifier.adapters.imports.parquet import ParquetReader, count
    except ImportError:
        raise Environment(EXTRA_NEEDED) from None
    columns = ParquetReader(file=file, layout=layout, reject=reject, at_once=at_once, ignore=ignore)
    return Source(after=columns.after, size=count(file), position_of=lambda read: read)


# Sorted runs of follows, a file each. The name is how far the source was read, so that the rename is the checkpoint.

KEY = np.dtype("<u8")
KEYS_IN_A_CHUNK = 1 << 22
"""Keys that are merged at a time: 32 MB."""
TAKEN_FILE = "taken"
MERGED_RUNS = 64
"""Runs of similar size that are merged into one: about a hundred are open at most, and each key is copied once or
twice."""
OCTAVES = MERGED_RUNS.bit_length() - 1


class SpilledEdges:
    def __init__(self, folder: Path, chunk_keys: int = KEYS_IN_A_CHUNK, merged_runs: int = MERGED_RUNS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._chunk_keys = chunk_keys
        self._alike = merged_runs

    def rows_read(self) -> int:
        return max((int(path.stem) for path in self._runs()), default=0)

    def add(self, keys: Keys, rows_read: int) -> None:
        self._put(f"{rows_read}.run", [keys])
        for group in self._runs_to_merge():
            # Replace the last of them. After a crash the others exist twice, and merging removes the duplicates.
            *obsolete, last = sorted(group, key=lambda path: int(path.stem))
            self._put(last.name, (keys for keys, _ in self._merged(_open(group), 0)))
            for path in obsolete:
                path.unlink()

    def remaining_chunks(self) -> Iterator[tuple[Keys, int]]:
        return self._merged(_open(self._runs()), self._taken())

    def remaining_count(self) -> int:
        taken = self._taken()
        return sum(len(run) - _place(run, taken) for run in _open(self._runs()))

    def count(self) -> int:
        """Return the number of keys. A key in several runs counts in each."""
        return sum(map(len, _open(self._runs())))

    def mark_done(self, mark: int) -> None:
        self._write(TAKEN_FILE, [str(mark).encode()])

    def clear(self) -> None:
        # Delete the mark first: a run without a mark is written again, but a mark without its runs would skip other
        # runs.
        for path in (self._folder / TAKEN_FILE, *self._runs()):
            path.unlink(missing_ok=True)

    def _merged(self, runs: Sequence[Keys], after: int) -> Iterator[tuple[Keys, int]]:
        size = max(2 * BLOCK_MEMBERS, self._chunk_keys // max(1, len(runs)))
        end = 1 << 2 * HALF_KEY_BITS
        while after < end:
            places = [_place(run, after) for run in runs]
            heads = [run[place : place + size] for run, place in zip(runs, places, strict=True)]
            more = [place + size < len(run) for run, place in zip(runs, places, strict=True)]
            after = merge_limit([head for head, follow in zip(heads, more, strict=True) if follow])
            if len(keys := merge_runs([head[: _place(head, after)] for head in heads])):
                yield keys, after

    def _runs_to_merge(self) -> Sequence[Sequence[Path]]:
        sizes = defaultdict[int, list[Path]](list)
        for path in self._runs():
            sizes[path.stat().st_size.bit_length() // OCTAVES].append(path)
        return [group for group in sizes.values() if len(group) >= self._alike]

    def _taken(self) -> int:
        path = self._folder / TAKEN_FILE
        return int(path.read_text()) if path.exists() else 0

    def _runs(self) -> Sequence[Path]:
        return sorted(self._folder.glob("*.run"))

    def _put(self, name: str, pieces: Iterable[Keys]) -> None:
        self._write(name, (keys.astype(KEY).tobytes() for keys in pieces))

    def _write(self, name: str, pieces: Iterable[bytes]) -> None:
        new = self._folder / f"{name}.new"
        try:
            with new.open("wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._folder / name)
        except OSError as error:
            new.unlink(missing_ok=True)  # frees the space of the incomplete file
            raise Full(f"{self._folder}: {error.strerror}.") from error
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open(paths: Iterable[Path]) -> Sequence[Keys]:
    return [np.memmap(path, dtype=KEY, mode="r") for path in paths if path.stat().st_size]


def _place(keys: Keys, key: int) -> int:
    """Return the position of the first key that isn't below `key`."""
    return len(keys) if key > (1 << 2 * HALF_KEY_BITS) - 1 else int(np.searchsorted(keys, np.uint64(key)))
