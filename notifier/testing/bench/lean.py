"""The leanest SQLite writer of the same rows: values made beforehand, one transaction a file, and nothing else."""

from collections import defaultdict
from collections.abc import Iterable

from notifier.adapters.sqlite.files import Files
from notifier.codec.moments import to_ms
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS
from notifier.domain.block import BLOCK_SLOT, Rows, window_of

_INSERT = "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, int, int, str, int, str, bytes | None]
"""As the columns are: block, inbox window, slot, opened at, subject, seq, tier, members."""


class LeanWriter:
    """Writes into files of its own, with the same pragmas, in the key's order."""

    def __init__(self, files: Files, rows: Iterable[Rows]) -> None:
        self._files = files
        self._values: dict[int, list[Values]] = defaultdict(list)
        for one in rows:
            self._values[one.shard % len(files.inboxes)] += _values(one)
        for values in self._values.values():
            values.sort(key=lambda v: v[:6])

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def write(self) -> None:
        for file, values in self._values.items():
            with self._files.inboxes[file].write() as c:
                c.executemany(_INSERT, values)


def _values(rows: Rows) -> list[Values]:
    head = (window_of(rows.opened_at),)
    tail = (to_ms(rows.opened_at), str(rows.burst.subject), rows.burst.seq, str(rows.tier))
    blocks: list[Values] = [
        (block, *head, BLOCK_SLOT, *tail, rows.bitmap(i)) for i, block in enumerate(rows.blocks.tolist())
    ]
    members: list[Values] = [(m // BLOCK_MEMBERS, *head, m % BLOCK_MEMBERS, *tail, None) for m in rows.members.tolist()]
    assert all(value[0] // SHARD_BLOCKS == rows.shard for value in (*blocks, *members))
    return blocks + members
