"""The cells of the ledger: written once; of what happens time and again one row has the last."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.delivery.ledger import Entry, Fact
from notifier.domain.delivery.slice import Slice, is_former
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey

TOGETHER = 100
"""Of a burst in one round: some 20 kB."""
LAST = -1
"""The n of the rows of what happens time and again; `last` is the number, and who writes a higher one wins. With a row
each time, whoever reads an account that waited a thousand times would read a thousand rows."""
REPEATED = (Fact.DISPATCHED, Fact.ATTEMPT, Fact.WAITS)
"""Of throttles each counts, and slices end once."""

_RECORD, _NEXT = statement("record_cell"), statement("next_time")
CELLS = "SELECT slice, fact, n, last, at, people, rows, phones, note FROM slices WHERE subject = ? AND seq = ?"

Question = tuple[str, Sequence[object]]

parsed = lru_cache(maxsize=8_192)(Slice.parse)
"""An account that moves is read many times."""


class Cells:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def record(self, entries: Sequence[Entry]) -> Sequence[bool]:
        # Without an answer this raises: an entry has no nonce, so nobody could say that a cell is his, and a False
        # would say that it isn't. Nothing is lost with it: a slice that was noted as queued and wasn't is queued again
        # when its time is over, and one that ended is done again, to the same rows, and finds its end.
        first = {_row_of(entry): n for n, entry in reversed(list(enumerate(entries)))}
        won: set[int] = set()
        alone = sorted(set(range(len(entries))) - set(first.values()))
        for group, together in self._together(entries, sorted(first.values())):
            # One of them was there already, so none was written: they are asked for one by one.
            (won.update if together else alone.extend)(group)
        won.update(n for n in sorted(alone) if self._alone(entries[n]))
        return [n in won for n in range(len(entries))]

    def _alone(self, entry: Entry) -> bool:
        return any(self._cluster.decide(*question) for question in _questions(entry))

    def _together(self, entries: Sequence[Entry], those: Sequence[int]) -> Sequence[tuple[Sequence[int], bool]]:
        """Those of the entries by account, and whether they were all written."""
        groups = list(_groups(entries, those))
        decided = self._cluster.decide_groups([[_questions(entries[n])[0] for n in group] for group in groups])
        if None in decided:
            raise StoreUnavailable("Whether some entries of the ledger were written isn't known.")
        return [(group, bool(together)) for group, together in zip(groups, decided, strict=True)]


def entries(rows: Iterable[Any]) -> Iterator[Entry]:
    return (_entry(row) for row in rows if not is_former(row.slice))


def _groups(entries: Sequence[Entry], those: Sequence[int]) -> Iterator[Sequence[int]]:
    accounts: dict[BurstKey, list[int]] = defaultdict(list)
    for n in those:
        accounts[entries[n].slice.burst].append(n)
    for each in accounts.values():
        yield from (each[start : start + TOGETHER] for start in range(0, len(each), TOGETHER))


def _row_of(entry: Entry) -> tuple[Slice, Fact, int]:
    return entry.slice, entry.fact, LAST if entry.fact in REPEATED else entry.n


def _questions(entry: Entry) -> Sequence[Question]:
    """Who writes the first finds no row, and whoever writes another finds one; where it is otherwise, the other way."""
    burst, (_, _, n) = entry.slice.burst, _row_of(entry)
    key = str(burst.subject), burst.seq, str(entry.slice), str(entry.fact), n
    values = entry.n, to_ms(entry.at), entry.people, entry.rows, entry.phones, entry.note
    made: Question = _RECORD, (*key, *values)
    raised: Question = _NEXT, (*values, *key, entry.n)
    if n != LAST:
        return [made]
    return [made, raised] if entry.n <= 1 else [raised, made]


def _entry(row: Any) -> Entry:
    return Entry(
        slice=parsed(row.slice),
        fact=Fact(row.fact),
        n=row.last if row.n == LAST else row.n,
        at=from_ms(row.at),
        people=row.people,
        rows=row.rows,
        phones=row.phones,
        note=row.note,
    )
