"""Runs of edges: a file each, named by how far the source was read with it, so that a rename is the checkpoint."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from notifier.domain.bits import BLOCK_MEMBERS
from notifier.domain.edges import HALF, Keys, boundary, joined

KEY = np.dtype("<u8")
PIECE = 1 << 22
"""Keys that are joined at once: 32 MB."""
TAKEN = "taken"


class SpilledEdges:
    def __init__(self, folder: Path, piece: int = PIECE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._piece = piece

    def read(self) -> int:
        return max((int(path.stem) for path in self._runs()), default=0)

    def add(self, keys: Keys, read: int) -> None:
        self._put(f"{read}.run", keys.astype(KEY).tobytes())

    def line(self) -> Iterator[tuple[Keys, int]]:
        runs = [np.memmap(path, dtype=KEY, mode="r") for path in self._runs() if path.stat().st_size]
        size = max(2 * BLOCK_MEMBERS, self._piece // max(1, len(runs)))
        after, end = self._taken(), 1 << 2 * HALF
        while after < end:
            places = [_place(run, after) for run in runs]
            heads = [run[place : place + size] for run, place in zip(runs, places, strict=True)]
            more = [place + size < len(run) for run, place in zip(runs, places, strict=True)]
            after = boundary([head for head, follow in zip(heads, more, strict=True) if follow])
            if len(keys := joined([head[: _place(head, after)] for head in heads])):
                yield keys, after

    def take(self, mark: int) -> None:
        self._put(TAKEN, str(mark).encode())

    def forget(self) -> None:
        for path in (*self._runs(), self._folder / TAKEN):
            path.unlink(missing_ok=True)

    def _taken(self) -> int:
        path = self._folder / TAKEN
        return int(path.read_text()) if path.exists() else 0

    def _runs(self) -> Sequence[Path]:
        return sorted(self._folder.glob("*.run"))

    def _put(self, name: str, content: bytes) -> None:
        new = self._folder / f"{name}.new"
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _place(keys: Keys, key: int) -> int:
    """Of the first key that isn't below it."""
    return len(keys) if key > (1 << 2 * HALF) - 1 else int(np.searchsorted(keys, np.uint64(key)))
