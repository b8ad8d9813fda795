"""Import sources (files, standard input), and sorted runs of keys on disk."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import numpy as np

from notifier.adapters.imports.layout import Layout, Reject, ReportIgnored
from notifier.adapters.imports.text_files import EXTRA_NEEDED, Form, TextReader, decompressed
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.import_keys_and_follow_rows import HALF_KEY_BITS, ImportKeys, merge_limit, merge_runs
from notifier.domain.errors import BadImport, DiskFull, UnusableEnvironment

T = TypeVar("T")

PARQUET = "parquet"
FORMS = (*Form, PARQUET)
COMPRESSED_ENDINGS = ("gz", "zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Generic[T]):
    """A file or the standard input."""

    rows_after: Callable[[int], Iterator[T]]
    """Yields batches of the rows after the given number of rows. Raises BadImport if the input is invalid."""
    size: int | None
    """Size in bytes or rows, only for progress bars. None for the standard input and pipes."""
    position_of: Callable[[int], int]
    """Returns how much of `size` is read. The argument is the number of rows read, which only Parquet uses."""


@contextmanager
def open_source(
    file: Path | BinaryIO,
    form: str,
    layout: Layout[T],
    reject: Reject,
    rows_per_batch: int,
    *,
    report_ignored: ReportIgnored = list,
) -> Iterator[Source[T]]:
    """Open a source. Raises BadImport or OSError, and UnusableEnvironment if the import extra is missing."""
    if form == PARQUET:
        if not isinstance(file, Path) or not file.is_file():
            raise BadImport("Parquet needs a regular file; standard input and pipes can't be used.")
        yield _parquet_source(file, layout, reject, rows_per_batch, report_ignored)
        return
    make_reader = partial(
        TextReader,
        form=Form(form),
        layout=layout,
        reject=reject,
        rows_per_batch=rows_per_batch,
        report_ignored=report_ignored,
    )
    if isinstance(file, Path):
        with file.open("rb") as raw:
            reader = make_reader(file=decompressed(raw))
            size = file.stat().st_size if raw.seekable() else None
            yield Source(rows_after=reader.rows_after, size=size, position_of=lambda _: raw.tell() if size else 0)
    else:
        reader = make_reader(file=decompressed(file))
        yield Source(rows_after=reader.rows_after, size=None, position_of=lambda _: 0)


def form_of(name: str) -> str:
    """Return the form that a file's name implies. Raises BadImport."""
    endings = name.lower().split(".")[1:]
    if endings and endings[-1] in COMPRESSED_ENDINGS:
        endings.pop()
        if endings and endings[-1] == PARQUET:
            raise BadImport(f"{name} is a compressed Parquet file; decompress it first.")
    if endings and endings[-1] in FORMS:
        return endings[-1]
    raise BadImport(f"The form of {name} is unknown; name it .csv, .ndjson or .parquet, or set --form.")


def _parquet_source(
    file: Path, layout: Layout[T], reject: Reject, rows_per_batch: int, report_ignored: ReportIgnored
) -> Source[T]:
    try:
        from notifier.adapters.imports.parquet import ParquetReader, count_rows
    except ImportError:
        raise UnusableEnvironment(EXTRA_NEEDED) from None
    reader = ParquetReader(
        file=file, layout=layout, reject=reject, rows_per_batch=rows_per_batch, report_ignored=report_ignored
    )
    return Source(rows_after=reader.rows_after, size=count_rows(file), position_of=lambda rows: rows)


# Each sorted run of keys is a file, which an atomic rename creates. The file's name is the number of source rows read
# so far. After a crash, the import resumes at the highest number.

KEY_TYPE = np.dtype("<u8")
KEYS_PER_CHUNK = 1 << 22
"""Number of keys, of all runs together, that are read at a time: 32 MB."""
PROGRESS_FILE = "taken"
"""File with a number. All keys below the number are written to their final place."""
END_KEY = 1 << 2 * HALF_KEY_BITS
"""Number above all keys."""
RUNS_PER_MERGE = 64
"""Runs of similar size form a size group. A group of this many runs is merged into one run.

Merging keeps the number of open files small. A merged run usually belongs to the next larger size group, so a key is
copied about once per size group.
"""
SIZE_BITS_PER_GROUP = RUNS_PER_MERGE.bit_length() - 1
"""Powers of two that a size group spans. For example, runs from 2^23 to below 2^29 bytes are in one group."""


class SpilledEdges:
    """Keys of an import, as sorted runs on disk.

    A key is a follow, or a bitmap to rebuild, packed into one number (`ImportKeys`).
    """

    def __init__(
        self, folder: Path, keys_per_chunk: int = KEYS_PER_CHUNK, runs_per_merge: int = RUNS_PER_MERGE
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._keys_per_chunk = keys_per_chunk
        self._runs_per_merge = runs_per_merge

    def rows_read(self) -> int:
        return max((int(path.stem) for path in self._runs()), default=0)

    def add(self, keys: ImportKeys, rows_read: int) -> None:
        self._write_keys(f"{rows_read}.run", [keys])
        for group in self._runs_to_merge():
            # The merged run replaces the last run of the group. If the process crashes before it deletes the obsolete
            # runs, their keys exist twice, until a later merge removes the duplicates.
            *obsolete, last = sorted(group, key=lambda path: int(path.stem))
            self._write_keys(last.name, (keys for keys, _ in self._merged_chunks(_open_runs(group), done_below=0)))
            for path in obsolete:
                path.unlink()

    def remaining_chunks(self) -> Iterator[tuple[ImportKeys, int]]:
        return self._merged_chunks(_open_runs(self._runs()), self._progress())

    def remaining_count(self) -> int:
        progress = self._progress()
        return sum(len(run) - _index_of(run, progress) for run in _open_runs(self._runs()))

    def count(self) -> int:
        """Return the number of keys. A key in several runs counts in each."""
        return sum(map(len, _open_runs(self._runs())))

    def mark_done(self, done_below: int) -> None:
        self._write(PROGRESS_FILE, [str(done_below).encode()])

    def clear(self) -> None:
        # Delete the progress file first. After a crash in between, all keys of the remaining runs are processed again,
        # which is harmless. A progress file without its runs would skip keys of the next import.
        for path in (self._folder / PROGRESS_FILE, *self._runs()):
            path.unlink(missing_ok=True)

    def _merged_chunks(self, runs: Sequence[ImportKeys], done_below: int) -> Iterator[tuple[ImportKeys, int]]:
        # A chunk holds more than one block of members, because `merge_limit` never splits a block.
        chunk_size = max(2 * BLOCK_MEMBERS, self._keys_per_chunk // max(1, len(runs)))
        while done_below < END_KEY:
            starts = [_index_of(run, done_below) for run in runs]
            chunks = [run[start : start + chunk_size] for run, start in zip(runs, starts, strict=True)]
            is_partial = [start + chunk_size < len(run) for run, start in zip(runs, starts, strict=True)]
            done_below = merge_limit([chunk for chunk, partial in zip(chunks, is_partial, strict=True) if partial])
            if len(keys := merge_runs([chunk[: _index_of(chunk, done_below)] for chunk in chunks])):
                yield keys, done_below

    def _runs_to_merge(self) -> Sequence[Sequence[Path]]:
        groups = defaultdict[int, list[Path]](list)
        for path in self._runs():
            groups[path.stat().st_size.bit_length() // SIZE_BITS_PER_GROUP].append(path)
        return [group for group in groups.values() if len(group) >= self._runs_per_merge]

    def _progress(self) -> int:
        path = self._folder / PROGRESS_FILE
        return int(path.read_text()) if path.exists() else 0

    def _runs(self) -> Sequence[Path]:
        return sorted(self._folder.glob("*.run"))

    def _write_keys(self, name: str, chunks: Iterable[ImportKeys]) -> None:
        self._write(name, (keys.astype(KEY_TYPE).tobytes() for keys in chunks))

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        new = self._folder / f"{name}.new"
        try:
            with new.open("wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._folder / name)
        except OSError as error:
            new.unlink(missing_ok=True)  # frees the space of the incomplete file
            raise DiskFull(f"{self._folder}: {error.strerror}.") from error
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open_runs(paths: Iterable[Path]) -> Sequence[ImportKeys]:
    return [np.memmap(path, dtype=KEY_TYPE, mode="r") for path in paths if path.stat().st_size]


def _index_of(keys: ImportKeys, boundary: int) -> int:
    """Return the position of the first key that isn't below `boundary`."""
    return len(keys) if boundary >= END_KEY else int(np.searchsorted(keys, np.uint64(boundary)))
