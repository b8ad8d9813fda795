"""The sleepers, in slots of waking: a look asks for what is due since the last moment at which nothing was left."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import part_of_subject
from notifier.adapters.cassandra.stores.open_bursts import LATE, LISTED_FOR, OpenBursts
from notifier.codec.storage import from_ms, to_ms, to_us
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock

SLOT = 900_000
"""Milliseconds. Kept keyspaces depend on it, as on the parts."""
PARTS = range(4)
TOGETHER = 16
"""Slots in one question: 64 partitions, nearly all of them empty."""
AT_ONCE = 1_024
"""Rows in one look, or more: a look that found some passes the tombstones of those that are woken by then."""
LONGEST = 26 * 3_600_000
"""That anybody sleeps: alerts are worth a day, and people are looked for at quarters of an hour."""
ANEW = 3_600_000
"""How often a look begins so far back: for what was laid down by one who slept himself, after its moment."""

_LAY = "INSERT INTO sleepers (slot, part, until, subject, seq, opened_at) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
_UP = "DELETE FROM sleepers USING TIMESTAMP ? WHERE slot = ? AND part = ? AND until = ? AND subject = ? AND seq = ?"
_LISTED = "SELECT subject, seq FROM sleepers WHERE slot IN ? AND part IN ?"
_DUE = """
    SELECT subject, seq, opened_at, until FROM sleepers
    WHERE slot IN ? AND part IN ? AND until >= ? AND until <= ? LIMIT ?
"""


class CassandraSleepers:
    """For one who wakes them; `openings` are the ledger's own, so that it finds at once what has come back."""

    def __init__(self, cluster: Cluster, clock: Clock, openings: OpenBursts) -> None:
        self._cluster = cluster
        self._clock = clock
        self._openings = openings
        self._first = 0
        """Nothing that was due before this moment is left, as far as is known: only tombstones."""
        self._then = 0
        """The same, once all that was found is woken."""
        self._found: Sequence[Sleeper] = []
        """By the last look, and not woken yet: to wake what somebody else has woken since is harmless."""
        self._anew: int | None = None

    def lay(self, sleepers: Sequence[Sleeper], now: datetime) -> None:
        # Into the one list before out of the other, here and below: who dies in between leaves the burst in both, and
        # the next does it again. Each write is as late as its decision. Who lays down what was woken meanwhile decided
        # that before its moment, and both his writes lose; who lays it down again decided it later, and both win.
        self._cluster.ask_each(_LAY, [(*_row(one), to_ms(one.opened_at), to_us(now)) for one in sleepers])
        self._openings.drop([(to_ms(one.opened_at), one.burst) for one in sleepers], now)

    def wake(self, now: datetime, most: int) -> Sequence[BurstKey]:
        if len(self._found) < most:
            self._look(to_ms(now), max(most, AT_ONCE))
        due = self._found[:most]
        self._openings.back(due)
        self._cluster.ask_each(_UP, [(to_us(one.until), *_row(one)) for one in due])
        if not (left := self._found[most:]):
            self._first = self._then
        self._found = left
        return list(dict.fromkeys(one.burst for one in due))

    def count(self) -> int:
        now = to_ms(self._clock.now())
        rows = self._asked(_LISTED, now - LONGEST, now + LONGEST)
        return len({(subject, seq) for subject, seq in rows})

    def _look(self, now: int, most: int) -> None:
        anew = self._anew is None or not self._anew <= now < self._anew + ANEW
        first = max(min(self._first, now - LONGEST) if anew else self._first, now - LISTED_FOR)
        rows = self._asked(_DUE, first, now, first, now, most)
        self._found = [_sleeper(row) for row in sorted(rows, key=lambda row: (row.until, row.subject, row.seq))]
        self._then, self._anew = (first if len(rows) >= most else now - LATE), now if anew else self._anew

    def _asked(self, statement: str, first: int, last: int, *more: object) -> list[Any]:
        """Of all slots from the one moment to the other."""
        slots = range(first // SLOT, last // SLOT + 1)
        asks = [([*slots[n : n + TOGETHER]], [*PARTS], *more) for n in range(0, len(slots), TOGETHER)]
        return [row for rows in self._cluster.ask_each(statement, asks) for row in rows]


def _row(one: Sleeper) -> tuple[int, int, int, str, int]:
    until, subject = to_ms(one.until), one.burst.subject
    return until // SLOT, part_of_subject(subject) % len(PARTS), until, str(subject), one.burst.seq


def _sleeper(row: Any) -> Sleeper:
    burst = BurstKey(Subject.parse(row.subject), row.seq)
    return Sleeper(burst=burst, opened_at=from_ms(row.opened_at), until=from_ms(row.until))
