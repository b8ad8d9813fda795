"""In-memory edges of a follow import."""

from collections.abc import Iterator

from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.import_keys_and_follow_rows import ImportKeys, merge_runs


class MemoryFollowRuns:
    def __init__(self, blocks: int = 2) -> None:
        self._blocks = blocks
        """Number of blocks per chunk."""
        self._runs: dict[int, ImportKeys] = {}
        self._taken = 0

    def rows_read(self) -> int:
        return max(self._runs, default=0)

    def add(self, keys: ImportKeys, rows_read: int) -> None:
        self._runs[rows_read] = keys

    def remaining_chunks(self) -> Iterator[tuple[ImportKeys, int]]:
        keys = merge_runs(list(self._runs.values()))
        while len(remaining := keys[keys >= self._taken]):
            blocks = sorted({int(key) // BLOCK_MEMBERS for key in remaining})[: self._blocks]
            chunk_end = (blocks[-1] + 1) * BLOCK_MEMBERS
            yield remaining[remaining < chunk_end], chunk_end
            if self._taken < chunk_end:
                raise AssertionError("a chunk must be taken before the next one")

    def remaining_count(self) -> int:
        return sum(int((keys >= self._taken).sum()) for keys in self._runs.values())

    def mark_done(self, done_below: int) -> None:
        self._taken = done_below

    def clear(self) -> None:
        self._runs, self._taken = {}, 0
