"""Stores the list of deferred bursts, in quarter-hour slots by wake-up time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import bucket_of_subject
from notifier.adapters.cassandra.stores.unfinished_bursts import MAX_LISTING_DELAY_MS, TTL_MS, UnfinishedBursts
from notifier.codec.messagepack import from_ms, to_ms, to_us
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.leases_queues_throttles_clock import Clock

WAKE_SLOT_MS = 900_000
"""Length of a slot in milliseconds. It must not change, because slot and bucket are the partition key."""
WAKE_BUCKETS = range(4)
"""Buckets of a slot. A burst is in the bucket of its subject. The number of buckets must not change."""
SLOTS_PER_QUERY = 16
"""Slots in one query: 64 partitions, nearly all of them empty."""
MIN_SCAN_ROWS = 1_024
"""Lowest row limit of a scan. Each scan has to skip the tombstones of bursts that were woken before, so a scan reads
due bursts for several calls."""
MAX_DEFERRAL_MS = 26 * 3_600_000
"""Longest time from a deferral to the wake-up. Alerts are valid for 24 hours, and the end of quiet hours
may be rounded up to a quarter hour; the rest is margin."""
FULL_SCAN_INTERVAL_MS = 3_600_000
"""Interval of full scans, which go back at least MAX_DEFERRAL_MS. They find bursts whose row a
stalled process wrote after their wake-up time."""

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
    """List of deferred bursts, for the process that defers and wakes bursts."""

    def __init__(self, cluster: Cluster, clock: Clock, unfinished_bursts: UnfinishedBursts) -> None:
        """Create the list. `unfinished_bursts` must be the object that this process's ledger uses.

        Its cache then knows of each woken burst, so the ledger's next scan finds the burst.
        """
        self._cluster = cluster
        self._clock = clock
        self._unfinished_bursts = unfinished_bursts
        self._scan_start = 0
        """Wake-up time at which the next scan starts, unless it is a full scan.

        All known bursts with earlier wake-up times are woken.
        """
        self._next_scan_start = 0
        """Next value of `_scan_start`, which applies once all bursts in `_due` are woken."""
        self._due: Sequence[DeferredBurst] = []
        """Bursts that the last scan found and that are not woken yet. It is harmless to wake a burst twice."""
        self._last_full_scan_at: int | None = None

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        # Here and in `wake_due`, add the burst to one list before removing it from the other list. A crash in between
        # leaves the burst in both lists, and a later call repeats the step.
        #
        # If this process stalls here, another process may wake the burst first. In both lists the write timestamp of a
        # deferral is the time of the decision, and that of a wake-up is the wake-up time. The later one wins.
        self._cluster.query_each(
            _INSERT, [(*_deferred_row(deferred), to_ms(deferred.opened_at), to_us(now)) for deferred in to_defer]
        )
        self._unfinished_bursts.drop([(to_ms(deferred.opened_at), deferred.burst) for deferred in to_defer], now)

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        if len(self._due) < limit:
            self._scan(to_ms(now), max(limit, MIN_SCAN_ROWS))
        due = self._due[:limit]
        self._unfinished_bursts.relist(due)
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
        """Read due bursts into `_due`. `limit` is the row limit of each query."""
        last = self._last_full_scan_at
        is_full_scan = last is None or not last <= now < last + FULL_SCAN_INTERVAL_MS
        start = min(self._scan_start, now - MAX_DEFERRAL_MS) if is_full_scan else self._scan_start
        start = max(start, now - TTL_MS)
        rows = self._query_slots(_SELECT_DUE, start, now, start, now, limit)
        self._due = [_deferred_burst(row) for row in sorted(rows, key=lambda row: (row.until, row.subject, row.seq))]
        # If the scan reached its row limit, more bursts may be due, and the next scan starts at the same wake-up time.
        # Otherwise the next scan overlaps this one, because deferrals with an earlier wake-up time may still arrive.
        self._next_scan_start = start if len(rows) >= limit else now - MAX_LISTING_DELAY_MS
        if is_full_scan:
            self._last_full_scan_at = now

    def _query_slots(self, statement: str, first_wake_up: int, last_wake_up: int, *other_values: object) -> list[Any]:
        slots = range(first_wake_up // WAKE_SLOT_MS, last_wake_up // WAKE_SLOT_MS + 1)
        queries = [
            ([*slots[n : n + SLOTS_PER_QUERY]], [*WAKE_BUCKETS], *other_values)
            for n in range(0, len(slots), SLOTS_PER_QUERY)
        ]
        return [row for rows in self._cluster.query_each(statement, queries) for row in rows]


def _deferred_row(deferred: DeferredBurst) -> tuple[int, int, int, str, int]:
    until, subject = to_ms(deferred.until), deferred.burst.subject
    bucket = bucket_of_subject(subject) % len(WAKE_BUCKETS)
    return until // WAKE_SLOT_MS, bucket, until, str(subject), deferred.burst.seq


def _deferred_burst(row: Any) -> DeferredBurst:
    burst = BurstKey(Subject.parse(row.subject), row.seq)
    return DeferredBurst(burst=burst, opened_at=from_ms(row.opened_at), until=from_ms(row.until))
