"""Stores deferred bursts in slots of their wake-up time.

A scan for due bursts starts at the time before which the last scan left none.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import bucket_of_subject
from notifier.adapters.cassandra.stores.open_bursts import MAX_LISTING_DELAY_MS, TTL_MS, OpenBursts
from notifier.codec.storage import from_ms, to_ms, to_us
from notifier.domain.delivery.backlog import DeferredBurst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock

SLOT_MS = 900_000
"""Slot length. It must not change, nor may BUCKETS: both are part of the partition key."""
BUCKETS = range(4)
SLOTS_PER_QUERY = 16
"""Slots per query: 64 partitions, nearly all of them empty."""
MIN_ROWS_PER_SCAN = 1_024
"""Lowest row limit of a scan. Each scan has to skip the tombstones of the bursts woken before it, so it fetches many
bursts at once."""
MAX_DEFERRAL_MS = 26 * 3_600_000
"""Longest deferral: an alert is valid for a day and is deferred to a full quarter hour; the rest is margin."""
FULL_SCAN_INTERVAL_MS = 3_600_000
"""Interval of full scans. They find bursts that a stalled process deferred after their wake-up time."""

_INSERT = """
    INSERT INTO deferred_bursts (slot, bucket, until, subject, seq, opened_at) VALUES (?, ?, ?, ?, ?, ?)
    USING TIMESTAMP ?
"""
_DELETE = """
    DELETE FROM deferred_bursts USING TIMESTAMP ?
    WHERE slot = ? AND bucket = ? AND until = ? AND subject = ? AND seq = ?
"""
_SELECT_KEYS = "SELECT subject, seq FROM deferred_bursts WHERE slot IN ? AND bucket IN ?"
_SELECT_DUE = """
    SELECT subject, seq, opened_at, until FROM deferred_bursts
    WHERE slot IN ? AND bucket IN ? AND until >= ? AND until <= ? LIMIT ?
"""


class CassandraDeferredBursts:
    """Deferred bursts, for the process that wakes them.

    `open_bursts` is the list object of the ledger in this process, so that the ledger finds woken bursts at once.
    """

    def __init__(self, cluster: Cluster, clock: Clock, open_bursts: OpenBursts) -> None:
        self._cluster = cluster
        self._clock = clock
        self._open_bursts = open_bursts
        self._scan_start = 0
        """Wake-up time from which on to scan. All known bursts that were due before are woken."""
        self._next_scan_start = 0
        """Value of `_scan_start` once all bursts in `_due` are woken."""
        self._due: Sequence[DeferredBurst] = []
        """Bursts of the last scan that are not woken yet. Waking a burst that another process has woken is harmless."""
        self._full_scan_at: int | None = None

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        # Write to the new list before deleting from the old one, here and below. A crash in between leaves the burst in
        # both lists, and the next run repeats the step.
        #
        # The write timestamp is the time of the decision; waking a burst uses the wake-up time. If a burst is woken
        # before these writes arrive, the higher timestamp decides about both lists. A deferral decided before the
        # wake-up time has no effect; a deferral decided later defers the burst again.
        self._cluster.query_each(
            _INSERT, [(*_deferred_row(deferred), to_ms(deferred.opened_at), to_us(now)) for deferred in to_defer]
        )
        self._open_bursts.drop([(to_ms(deferred.opened_at), deferred.burst) for deferred in to_defer], now)

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        if len(self._due) < limit:
            self._scan(to_ms(now), max(limit, MIN_ROWS_PER_SCAN))
        due = self._due[:limit]
        self._open_bursts.reopen(due)
        self._cluster.query_each(_DELETE, [(to_us(deferred.until), *_deferred_row(deferred)) for deferred in due])
        if not (remaining := self._due[limit:]):
            self._scan_start = self._next_scan_start
        self._due = remaining
        return list(dict.fromkeys(deferred.burst for deferred in due))

    def count(self) -> int:
        now = to_ms(self._clock.now())
        rows = self._query_slots(_SELECT_KEYS, now - MAX_DEFERRAL_MS, now + MAX_DEFERRAL_MS)
        return len({(subject, seq) for subject, seq in rows})

    def _scan(self, now: int, limit: int) -> None:
        is_full_scan = (
            self._full_scan_at is None or not self._full_scan_at <= now < self._full_scan_at + FULL_SCAN_INTERVAL_MS
        )
        start = min(self._scan_start, now - MAX_DEFERRAL_MS) if is_full_scan else self._scan_start
        start = max(start, now - TTL_MS)
        rows = self._query_slots(_SELECT_DUE, start, now, start, now, limit)
        self._due = [_deferred_burst(row) for row in sorted(rows, key=lambda row: (row.until, row.subject, row.seq))]
        # After a scan that reached its row limit, more bursts may be due.
        self._next_scan_start = start if len(rows) >= limit else now - MAX_LISTING_DELAY_MS
        if is_full_scan:
            self._full_scan_at = now

    def _query_slots(self, statement: str, first: int, last: int, *more: object) -> list[Any]:
        """Query all slots between two wake-up times. `more` are the further values of the statement."""
        slots = range(first // SLOT_MS, last // SLOT_MS + 1)
        queries = [
            ([*slots[n : n + SLOTS_PER_QUERY]], [*BUCKETS], *more) for n in range(0, len(slots), SLOTS_PER_QUERY)
        ]
        return [row for rows in self._cluster.query_each(statement, queries) for row in rows]


def _deferred_row(deferred: DeferredBurst) -> tuple[int, int, int, str, int]:
    until, subject = to_ms(deferred.until), deferred.burst.subject
    return until // SLOT_MS, bucket_of_subject(subject) % len(BUCKETS), until, str(subject), deferred.burst.seq


def _deferred_burst(row: Any) -> DeferredBurst:
    burst = BurstKey(Subject.parse(row.subject), row.seq)
    return DeferredBurst(burst=burst, opened_at=from_ms(row.opened_at), until=from_ms(row.until))
