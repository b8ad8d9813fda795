"""Lists open bursts in slots of opening time.

A slot that is over is scanned from its oldest open burst on, or not at all if it has none left. Slots in which no burst
was ever listed are not scanned.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import hour_of
from notifier.codec.storage import to_ms, to_us
from notifier.domain.delivery.backlog import DeferredBurst
from notifier.domain.delivery.plan import Plan
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock

# Cache of the slots: what a process remembers of the list of open bursts, so that a full scan queries little.

SLOT_MS = 30_000
"""Slot length. Each closed burst leaves a tombstone in its slot; Cassandra rejects a scan over 100,000 tombstones."""
TTL_MS = 8 * 24 * 3_600_000
"""Default TTL of the tables. The statements set no TTL."""
MAX_LISTING_DELAY_MS = 60_000
"""A burst that is listed within this time after its opening is found by the next full scan. A later one is found by a
rescan of its hour."""
RESCANNED_PER_SCAN = 4
"""Hours that each full scan reads again from the start. At one scan per second, each hour is read again once a
minute."""


@dataclass(frozen=True, slots=True)
class OpenBurstScan:
    """Plan of a full scan, made at its beginning."""

    now: int
    """Time before the first query. The scan may miss bursts that are listed later."""
    rescanned_hours: Collection[int]
    """Hours whose slots are read and scanned from the start, regardless of the cache."""
    known_slots: Mapping[int, Collection[int]]
    """Slots by hour, from the cache."""
    unread_hours: Collection[int]
    """Hours whose slots are to be queried."""


@dataclass(slots=True)
class OpenSlotCache:
    """Cache of the slots by hour, and of the time before which a slot has no open burst.

    Thread-safe, but only one scan may run at a time.
    """

    scanned_at: int = 0
    """Start of the last successful scan."""
    slots: dict[int, Collection[int]] = field(default_factory=dict)
    scan_from: dict[int, int] = field(default_factory=dict)
    """Opening time, by slot. The slot has no open burst that opened earlier."""
    rescan_order: list[int] = field(default_factory=list)
    """Hours in the order of their rescans. The hour that was rescanned longest ago comes first."""
    _touched: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def touch(self, slots: Collection[int]) -> None:
        """Record that this process listed bursts in the slots, maybe during a scan."""
        with self._lock:
            self._touched.update(slots)
            self._forget(slots)

    def begin(self, now: int) -> OpenBurstScan:
        all_hours = range(hour_of(now - TTL_MS), hour_of(now + MAX_LISTING_DELAY_MS) + 1)
        with self._lock:
            self._touched.clear()
            self.rescan_order = [hour for hour in self.rescan_order if hour in all_hours]
            rescanned = self.rescan_order[:RESCANNED_PER_SCAN]
            # An hour gets new slots until it is over, and for MAX_LISTING_DELAY_MS after that. Use the cached slots of
            # an hour only if the last scan started after that time.
            first_incomplete_hour = hour_of(min(self.scanned_at, now) - MAX_LISTING_DELAY_MS)
            known = {
                hour: slots
                for hour, slots in self.slots.items()
                if hour in all_hours and hour < first_incomplete_hour and hour not in rescanned
            }
        return OpenBurstScan(now, rescanned, known, [hour for hour in all_hours if hour not in known])

    def scan_starts(self, scan: OpenBurstScan, hours: Mapping[int, Collection[int]]) -> Mapping[int, int]:
        """Return the opening time from which on each slot is scanned.

        Slots that are over and have no open burst are left out.
        """
        with self._lock:
            starts = {
                slot: 0 if hour in scan.rescanned_hours else self.scan_from.get(slot, 0)
                for hour, slots in hours.items()
                for slot in slots
            }
        return {slot: start for slot, start in starts.items() if start < slot_end(slot)}

    def finish(
        self,
        scan: OpenBurstScan,
        hours: Mapping[int, Collection[int]],
        scanned: Collection[int],
        oldest: Mapping[int, int],
    ) -> None:
        """Finish a successful scan. `oldest` has the opening of the oldest open burst, by slot."""
        complete_until = scan.now - MAX_LISTING_DELAY_MS
        with self._lock:
            self.scan_from = {slot: start for slot, start in self.scan_from.items() if hour_of(slot * SLOT_MS) in hours}
            self.scan_from |= {slot: min(oldest.get(slot, slot_end(slot)), complete_until) for slot in scanned}
            self.slots, self.scanned_at = dict(hours), scan.now
            self._reorder(scan.rescanned_hours, hours)
            self._forget(self._touched)

    def abort(self, scan: OpenBurstScan) -> None:
        """Finish a failed scan, and put its rescanned hours last.

        One of these hours may be unreadable, and must not fail the next scans, too.
        """
        with self._lock:
            self._reorder(scan.rescanned_hours, ())

    def _reorder(self, rescanned: Collection[int], hours: Collection[int]) -> None:
        remaining = [hour for hour in self.rescan_order if hour not in rescanned]
        self.rescan_order = [*remaining, *(hour for hour in hours if hour not in self.rescan_order), *rescanned]

    def _forget(self, slots: Collection[int]) -> None:
        for slot in slots:
            self.scan_from.pop(slot, None)
            self.slots.pop(hour_of(slot * SLOT_MS), None)


def slot_end(slot: int) -> int:
    return (slot + 1) * SLOT_MS


_INSERT_SLOT = "INSERT INTO open_slots (hour, slot) VALUES (?, ?)"
_SELECT_SLOTS = "SELECT hour, slot FROM open_slots WHERE hour IN ?"
_INSERT_BURST = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_SELECT_BURSTS = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DELETE_BURST = "DELETE FROM open_bursts USING TIMESTAMP ? WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

MAX_CLOCK_SKEW = timedelta(seconds=5)
"""How far the clock of the process that opens a burst may be ahead of ours. Scans read that far
into the future."""
PARTITIONS_PER_QUERY = 64
"""Partitions per query. Nearly all of them are empty."""
MAX_CACHED_SLOTS = 4_096
"""Maximum number of cached slots that are known to be in the table `open_slots`."""


ListedBurst = tuple[int, BurstKey]
"""Opening in milliseconds, and key of a burst."""


class OpenBursts:
    """List of the open bursts.

    The write timestamp is the time of the decision, so that the later decision wins regardless of delays.

    A woken burst is listed with its wake-up time as timestamp. It so overrides the deferral, which is decided earlier.
    A deferral by a stalled process may be decided after the wake-up time: it wins. The burst is deferred again,
    and the hourly full scan of the deferred bursts wakes it.

    A scan of all slots would query 23,040 of them every second, and skip the tombstones of a week. The cache leaves few
    of them. A burst that another process lists later than MAX_LISTING_DELAY_MS is found within a minute.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._listed_slots: set[int] = set()
        self._cache = OpenSlotCache()
        self._scan_lock = Lock()
        self._last_scan: Sequence[ListedBurst] = ()

    def add(self, plans: Sequence[Plan]) -> None:
        at = to_us(self._clock.now())
        self._list([(to_ms(plan.opened_at), plan.burst, at) for plan in plans])

    def reopen(self, deferred_bursts: Sequence[DeferredBurst]) -> None:
        self._list([(to_ms(deferred.opened_at), deferred.burst, to_us(deferred.until)) for deferred in deferred_bursts])

    def drop(self, bursts: Iterable[ListedBurst], at: datetime) -> None:
        """Remove the bursts under all openings that are known.

        Two processes that plan one burst may have listed it under different openings.
        """
        removed = set(bursts)
        removed |= {listed for listed in self._last_scan if listed[1] in {burst for _, burst in removed}}
        self._cluster.query_each(_DELETE_BURST, [(to_us(at), *_row(*place)) for place in removed])

    def _list(self, rows: Sequence[tuple[int, BurstKey, int]]) -> None:
        slots = {ms // SLOT_MS for ms, _, _ in rows}
        # Write the slot first. After a crash an empty slot is scanned in vain, but a burst in an unlisted slot would
        # never be found.
        try:
            self._cluster.query_each(
                _INSERT_SLOT, [(hour_of(slot * SLOT_MS), slot) for slot in slots - self._listed_slots]
            )
            self._listed_slots = slots if len(self._listed_slots) > MAX_CACHED_SLOTS else self._listed_slots | slots
            self._cluster.query_each(_INSERT_BURST, [(*_row(ms, burst), at) for ms, burst, at in rows])
        except StoreUnavailable:
            self._listed_slots = set()  # a node that was down may have lost slots that it had acknowledged
            raise
        finally:
            self._cache.touch(slots)

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        now = self._clock.now()
        first_ms = max(to_ms(moment), to_ms(now) - TTL_MS)
        slots = range(first_ms // SLOT_MS, to_ms(now + MAX_CLOCK_SKEW) // SLOT_MS + 1)
        return [key for _, key in self._open_in(dict.fromkeys(slots, to_ms(moment)))]

    def all(self) -> Sequence[BurstKey]:
        with self._scan_lock:
            scan = self._cache.begin(to_ms(self._clock.now()))
            try:
                hours = {**scan.known_slots, **self._read_slots(scan.unread_hours)}
                scan_starts = self._cache.scan_starts(scan, hours)
                listed = self._open_in(scan_starts)
            except Exception:
                self._cache.abort(scan)
                raise
            oldest = {ms // SLOT_MS: ms for ms, _ in reversed(listed)}
            self._cache.finish(scan, hours, scan_starts, oldest)
            self._last_scan = listed
        return [key for _, key in listed]

    def _read_slots(self, hours: Collection[int]) -> Mapping[int, Collection[int]]:
        """Return the slots of each hour."""
        slots: dict[int, list[int]] = {hour: [] for hour in hours}
        queries = [(list(slots)[n : n + PARTITIONS_PER_QUERY],) for n in range(0, len(slots), PARTITIONS_PER_QUERY)]
        for hour, slot in (tuple(row) for rows in self._cluster.query_each(_SELECT_SLOTS, queries) for row in rows):
            slots[hour].append(slot)
        return slots

    def _open_in(self, scan_starts: Mapping[int, int]) -> Sequence[ListedBurst]:
        """Return the open bursts of each slot, from its scan start on; oldest first."""
        slots_by_start = defaultdict[int, list[int]](list)
        for slot, start in scan_starts.items():
            slots_by_start[start].append(slot)
        queries = [
            (slots[n : n + PARTITIONS_PER_QUERY], start)
            for start, slots in slots_by_start.items()
            for n in range(0, len(slots), PARTITIONS_PER_QUERY)
        ]
        listed = [tuple(row) for rows in self._cluster.query_each(_SELECT_BURSTS, queries) for row in rows]
        return [(ms, BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in sorted(listed)]


def _row(ms: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return ms // SLOT_MS, ms, str(burst.subject), burst.seq
