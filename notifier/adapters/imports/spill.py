"""Runs of edges: a file each, named by how far the source was read with it, so that a rename is the checkpoint."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.follow_import import HALF, Keys, boundary, joined
from notifier.domain.errors import Full

KEY = np.dtype("<u8")
PIECE = 1 << 22
"""Keys that are joined at once: 32 MB."""
TAKEN = "taken"
ALIKE = 64
"""Runs of about one size that become one: so some hundred are open at most, and each key is copied once or twice."""
OCTAVES = ALIKE.bit_length() - 1


class SpilledEdges:
    def __init__(self, folder: Path, piece: int = PIECE, alike: int = ALIKE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._piece = piece
        self._alike = alike

    def read(self) -> int:
        return max((int(path.stem) for path in self._runs()), default=0)

    def add(self, keys: Keys, read: int) -> None:
        self._put(f"{read}.run", [keys])
        for some in self._many_alike():
            # In place of the last of them. Cut off behind it, the others are there twice, and what is joined is not.
            *others, last = sorted(some, key=lambda path: int(path.stem))
            self._put(last.name, (keys for keys, _ in self._joined(_open(some), 0)))
            for path in others:
                path.unlink()

    def line(self) -> Iterator[tuple[Keys, int]]:
        return self._joined(_open(self._runs()), self._taken())

    def left(self) -> int:
        taken = self._taken()
        return sum(len(run) - _place(run, taken) for run in _open(self._runs()))

    def count(self) -> int:
        """All, those that are in several runs counted in each."""
        return sum(map(len, _open(self._runs())))

    def take(self, mark: int) -> None:
        self._write(TAKEN, [str(mark).encode()])

    def forget(self) -> None:
        # The mark first: a run without it is written again, a mark without its runs would take others'.
        for path in (self._folder / TAKEN, *self._runs()):
            path.unlink(missing_ok=True)

    def _joined(self, runs: Sequence[Keys], after: int) -> Iterator[tuple[Keys, int]]:
        size = max(2 * BLOCK_MEMBERS, self._piece // max(1, len(runs)))
        end = 1 << 2 * HALF
        while after < end:
            places = [_place(run, after) for run in runs]
            heads = [run[place : place + size] for run, place in zip(runs, places, strict=True)]
            more = [place + size < len(run) for run, place in zip(runs, places, strict=True)]
            after = boundary([head for head, follow in zip(heads, more, strict=True) if follow])
            if len(keys := joined([head[: _place(head, after)] for head in heads])):
                yield keys, after

    def _many_alike(self) -> Sequence[Sequence[Path]]:
        sizes = defaultdict[int, list[Path]](list)
        for path in self._runs():
            sizes[path.stat().st_size.bit_length() // OCTAVES].append(path)
        return [some for some in sizes.values() if len(some) >= self._alike]

    def _taken(self) -> int:
        path = self._folder / TAKEN
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
            new.unlink(missing_ok=True)  # what fitted of it makes room
            raise Full(f"{self._folder}: {error.strerror}.") from error
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _open(paths: Iterable[Path]) -> Sequence[Keys]:
    return [np.memmap(path, dtype=KEY, mode="r") for path in paths if path.stat().st_size]


def _place(keys: Keys, key: int) -> int:
    """Of the first key that isn't below it."""
    return len(keys) if key > (1 << 2 * HALF) - 1 else int(np.searchsorted(keys, np.uint64(key)))
