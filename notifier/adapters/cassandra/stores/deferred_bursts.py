"""Stores deferred bursts in slots of their wake-up time.

A scan starts at the last moment before which no due burst was left.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import bucket_of_subject
from notifier.adapters.cassandra.stores.open_bursts import LATE, LISTED_FOR, OpenBursts
from notifier.codec.storage import from_ms, to_ms, to_us
from notifier.domain.delivery.backlog import DeferredBurst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock

SLOT = 900_000
"""Slot length in milliseconds. Existing keyspaces depend on it, and on BUCKETS."""
BUCKETS = range(4)
TOGETHER = 16
"""Slots per query: 64 partitions, nearly all of them empty."""
AT_ONCE = 1_024
"""Minimum row limit of a scan. The next scan has to skip the tombstones of the bursts that are woken until then."""
LONGEST = 26 * 3_600_000
"""Longest deferral in milliseconds: alerts are valid for a day, and users are checked at quarter hours."""
RESCANNED_EVERY = 3_600_000
"""Interval of full scans in milliseconds. They find bursts that a stalled process deferred after their wake-up time."""

_INSERT = """
    INSERT INTO deferred_bursts (slot, bucket, until, subject, seq, opened_at) VALUES (?, ?, ?, ?, ?, ?)
    USING TIMESTAMP ?
"""
_DELETE = """
    DELETE FROM deferred_bursts USING TIMESTAMP ?
    WHERE slot = ? AND bucket = ? AND until = ? AND subject = ? AND seq = ?
"""
_LISTED = "SELECT subject, seq FROM deferred_bursts WHERE slot IN ? AND bucket IN ?"
_DUE = """
    SELECT subject, seq, opened_at, until FROM deferred_bursts
    WHERE slot IN ? AND bucket IN ? AND until >= ? AND until <= ? LIMIT ?
"""


class CassandraDeferredBursts:
    """Deferred bursts, for the process that wakes them.

    `openings` is the ledger's own list, so that the ledger finds woken bursts at once.
    """

    def __init__(self, cluster: Cluster, clock: Clock, openings: OpenBursts) -> None:
        self._cluster = cluster
        self._clock = clock
        self._openings = openings
        self._first = 0
        """All bursts due before this moment are woken, as far as is known; only tombstones are left."""
        self._then = 0
        """Value of `_first` once all bursts in `_due` are woken."""
        self._due: Sequence[DeferredBurst] = []
        """Bursts of the last scan that are not woken yet. Waking a burst that another process has woken is harmless."""
        self._full_scan_at: int | None = None

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        # Write to the new list before deleting from the old one, here and below: a crash in between leaves the burst in
        # both, and the next run repeats the step. The write timestamp is the time of the decision. A deferral decided
        # before the wake-up time loses both writes if the burst was woken meanwhile; one decided later wins both.
        self._cluster.query_each(
            _INSERT, [(*_deferred_row(deferred), to_ms(deferred.opened_at), to_us(now)) for deferred in to_defer]
        )
        self._openings.drop([(to_ms(deferred.opened_at), deferred.burst) for deferred in to_defer], now)

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        if len(self._due) < limit:
            self._scan(to_ms(now), max(limit, AT_ONCE))
        due = self._due[:limit]
        self._openings.reopen(due)
        self._cluster.query_each(_DELETE, [(to_us(deferred.until), *_deferred_row(deferred)) for deferred in due])
        if not (remaining := self._due[limit:]):
            self._first = self._then
        self._due = remaining
        return list(dict.fromkeys(deferred.burst for deferred in due))

    def count(self) -> int:
        now = to_ms(self._clock.now())
        rows = self._query_slots(_LISTED, now - LONGEST, now + LONGEST)
        return len({(subject, seq) for subject, seq in rows})

    def _scan(self, now: int, most: int) -> None:
        is_full_scan = (
            self._full_scan_at is None or not self._full_scan_at <= now < self._full_scan_at + RESCANNED_EVERY
        )
        first = max(min(self._first, now - LONGEST) if is_full_scan else self._first, now - LISTED_FOR)
        rows = self._query_slots(_DUE, first, now, first, now, most)
        self._due = [_deferred_burst(row) for row in sorted(rows, key=lambda row: (row.until, row.subject, row.seq))]
        self._then, self._full_scan_at = (
            (first if len(rows) >= most else now - LATE),
            now if is_full_scan else self._full_scan_at,
        )

    def _query_slots(self, statement: str, first: int, last: int, *more: object) -> list[Any]:
        """Query all slots between two moments."""
        slots = range(first // SLOT, last // SLOT + 1)
        asks = [([*slots[n : n + TOGETHER]], [*BUCKETS], *more) for n in range(0, len(slots), TOGETHER)]
        return [row for rows in self._cluster.query_each(statement, asks) for row in rows]


def _deferred_row(deferred: DeferredBurst) -> tuple[int, int, int, str, int]:
    until, subject = to_ms(deferred.until), deferred.burst.subject
    return until // SLOT, bucket_of_subject(subject) % len(BUCKETS), until, str(subject), deferred.burst.seq


def _deferred_burst(row: Any) -> DeferredBurst:
    burst = BurstKey(Subject.parse(row.subject), row.seq)
    return DeferredBurst(burst=burst, opened_at=from_ms(row.opened_at), until=from_ms(row.until))
