"""The leanest SQLite writer of the same rows: values made beforehand, one transaction a file, and nothing else."""

from collections import defaultdict
from collections.abc import Iterable

from notifier.adapters.sqlite.files import Files
from notifier.codec.timestamps import to_ms
from notifier.domain.audience.inbox_rows import SHARD_RANGES, InboxRows, window_of

_INSERT = "INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?)"

Values = tuple[int, int, str, int, int, str, bytes]
"""As the columns are: range, inbox window, subject, opened at, seq, tier, members."""


class LeanWriter:
    """Writes into files of its own, with the same pragmas, in the key's order."""

    def __init__(self, files: Files, rows: Iterable[InboxRows]) -> None:
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


def _values(rows: InboxRows) -> list[Values]:
    key = (window_of(rows.opened_at), str(rows.burst.subject), to_ms(rows.opened_at), rows.burst.seq, str(rows.tier))
    assert all(member_range // SHARD_RANGES == rows.shard for member_range in rows.ranges)
    return [(each, *key, members) for each, members in zip(rows.ranges, rows.members, strict=True)]
