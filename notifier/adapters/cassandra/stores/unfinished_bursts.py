"""Stores the list of unfinished bursts, in half-minute slots by opening time.

A cache has a start time for each slot: no unfinished burst of the slot is known to have opened earlier. So a full scan
skips most slots without unfinished bursts, and most tombstones of removed bursts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import hour_of
from notifier.codec.messagepack import to_ms, to_us
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.delivery.plan import Plan
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.leases_queues_throttles_clock import Clock

# Cache of one process: which slots a full scan reads, and from which opening time on.

SLOT_MS = 30_000
"""Length of a slot in milliseconds. Each removed burst leaves a tombstone in its slot, and Cassandra rejects a query
that reads more than 100,000 tombstones."""
TTL_MS = 8 * 24 * 3_600_000
"""Lifetime of a listed burst in milliseconds: the default TTL of its table, because the statements set no TTL."""
MAX_LISTING_DELAY_MS = 60_000
"""Time after a burst's opening within which the burst is normally listed. The next full scan finds such a burst. If
another process lists a burst later, full scans may miss the burst until one of them rescans the burst's hour."""
RESCANNED_HOURS_PER_SCAN = 4
"""Hours whose slots a full scan reads from their start, whatever the cache has. At one scan per second, every hour is
rescanned within a minute."""


@dataclass(frozen=True, slots=True)
class UnfinishedBurstScan:
    """Hours and slots that a full scan reads, decided when the scan starts."""

    started_at: int
    """Time before the first query, in milliseconds. The scan may miss bursts that are listed after this time."""
    rescanned_hours: Collection[int]
    """Hours whose slots are read from their start, without the cache."""
    cached_slots: Mapping[int, Collection[int]]
    """Slots by hour, for the hours whose slots are all in the cache."""
    hours_to_read: Collection[int]
    """Hours whose slots must be read from the table `open_slots`."""


@dataclass(slots=True)
class OpenSlotCache:
    """The slots of each hour, and a start time for the scan of each slot.

    Thread-safe, but only one scan may run at a time.
    """

    last_scan_started_at: int = 0
    """Start of the last successful scan."""
    slots_by_hour: dict[int, Collection[int]] = field(default_factory=dict)
    start_by_slot: dict[int, int] = field(default_factory=dict)
    """Opening time from which on a scan reads the slot."""
    rescan_order: list[int] = field(default_factory=list)
    """Hours in the order in which they are rescanned next. The hour whose last rescan is longest ago comes first."""
    _listed_during_scan: set[int] = field(default_factory=set)
    """Slots in which this process listed bursts since the last scan started."""
    _lock: Lock = field(default_factory=Lock)

    def invalidate(self, slots: Collection[int]) -> None:
        """Forget slots in which this process listed bursts. A running scan will store nothing about these slots."""
        with self._lock:
            self._listed_during_scan.update(slots)
            self._forget(slots)

    def begin(self, now: int) -> UnfinishedBurstScan:
        """Decide what the scan that starts now reads."""
        all_hours = range(hour_of(now - TTL_MS), hour_of(now + MAX_LISTING_DELAY_MS) + 1)
        with self._lock:
            self._listed_during_scan.clear()
            self.rescan_order = [hour for hour in self.rescan_order if hour in all_hours]
            rescanned = self.rescan_order[:RESCANNED_HOURS_PER_SCAN]
            # An hour normally gets new slots until MAX_LISTING_DELAY_MS after its end. Use the cached slots of an hour
            # only if the last scan started after that time.
            first_incomplete_hour = hour_of(min(self.last_scan_started_at, now) - MAX_LISTING_DELAY_MS)
            cached = {
                hour: slots
                for hour, slots in self.slots_by_hour.items()
                if hour in all_hours and hour < first_incomplete_hour and hour not in rescanned
            }
        return UnfinishedBurstScan(now, rescanned, cached, [hour for hour in all_hours if hour not in cached])

    def scan_starts(self, scan: UnfinishedBurstScan, slots_by_hour: Mapping[int, Collection[int]]) -> Mapping[int, int]:
        """Return the scan start of each slot. Leave out slots without unfinished bursts, according to the cache."""
        with self._lock:
            starts = {
                slot: 0 if hour in scan.rescanned_hours else self.start_by_slot.get(slot, 0)
                for hour, slots in slots_by_hour.items()
                for slot in slots
            }
        return {slot: start for slot, start in starts.items() if start < slot_end(slot)}

    def finish(
        self,
        scan: UnfinishedBurstScan,
        slots_by_hour: Mapping[int, Collection[int]],
        scanned_slots: Collection[int],
        oldest_openings: Mapping[int, int],
    ) -> None:
        """Store the results of a successful scan.

        `oldest_openings` has the opening time of the oldest unfinished burst of each slot with such bursts.
        """
        # A burst that opened before this time and was not found is finished or deferred, or was listed too late.
        complete_until = scan.started_at - MAX_LISTING_DELAY_MS
        with self._lock:
            self.start_by_slot = {
                slot: start for slot, start in self.start_by_slot.items() if hour_of(slot * SLOT_MS) in slots_by_hour
            }
            self.start_by_slot |= {
                slot: min(oldest_openings.get(slot, slot_end(slot)), complete_until) for slot in scanned_slots
            }
            self.slots_by_hour, self.last_scan_started_at = dict(slots_by_hour), scan.started_at
            self._reorder(scan.rescanned_hours, slots_by_hour)
            self._forget(self._listed_during_scan)

    def abort(self, scan: UnfinishedBurstScan) -> None:
        """Put the rescanned hours of a failed scan last. Otherwise an unreadable hour would fail the next scan, too."""
        with self._lock:
            self._reorder(scan.rescanned_hours, ())

    def _reorder(self, rescanned: Collection[int], hours: Collection[int]) -> None:
        """Add the hours that are not in the order yet, and move the rescanned hours behind them."""
        remaining = [hour for hour in self.rescan_order if hour not in rescanned]
        self.rescan_order = [*remaining, *(hour for hour in hours if hour not in self.rescan_order), *rescanned]

    def _forget(self, slots: Collection[int]) -> None:
        for slot in slots:
            self.start_by_slot.pop(slot, None)
            self.slots_by_hour.pop(hour_of(slot * SLOT_MS), None)


def slot_end(slot: int) -> int:
    return (slot + 1) * SLOT_MS


_INSERT_SLOT = "INSERT INTO open_slots (hour, slot) VALUES (?, ?)"
_SELECT_SLOTS = "SELECT hour, slot FROM open_slots WHERE hour IN ?"
_INSERT_BURST = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_SELECT_BURSTS = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DELETE_BURST = "DELETE FROM open_bursts USING TIMESTAMP ? WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

READ_AHEAD = timedelta(seconds=5)
"""How far `UnfinishedBursts.since` reads ahead, because the clock of a process that opens bursts may be ahead."""
PARTITIONS_PER_QUERY = 64
MAX_STORED_SLOTS = 4_096
"""Number of remembered slots above which the older ones are forgotten."""


UnfinishedBurstEntry = tuple[int, BurstKey]
"""Opening time in milliseconds, and key of an unfinished burst."""


class UnfinishedBursts:
    """List of the unfinished bursts.

    Each row is written or deleted with the time of the decision as write timestamp. The later decision about a burst
    wins, even if its write arrives first. Only a woken burst is listed with a different write timestamp: its wake-up
    time, which overrides the earlier deferral.

    Without the cache each full scan, once a second, would query up to 23,040 slots and skip their tombstones.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._stored_slots: set[int] = set()
        """Slots that this process has stored in the table `open_slots`."""
        self._cache = OpenSlotCache()
        self._scan_lock = Lock()
        self._last_scan: Sequence[UnfinishedBurstEntry] = ()
        """Unfinished bursts that the last full scan found."""

    def add(self, plans: Sequence[Plan]) -> None:
        at = to_us(self._clock.now())
        self._insert([(to_ms(plan.opened_at), plan.burst, at) for plan in plans])

    def relist(self, deferred_bursts: Sequence[DeferredBurst]) -> None:
        self._insert(
            [(to_ms(deferred.opened_at), deferred.burst, to_us(deferred.until)) for deferred in deferred_bursts]
        )

    def drop(self, entries: Iterable[UnfinishedBurstEntry], at: datetime) -> None:
        """Remove the bursts under the given opening times, and under those that the last full scan found.

        If two processes planned a burst, they may have listed it under different opening times.
        """
        removed = set(entries)
        removed |= {entry for entry in self._last_scan if entry[1] in {burst for _, burst in removed}}
        self._cluster.query_each(_DELETE_BURST, [(to_us(at), *_burst_row(*entry)) for entry in removed])

    def _insert(self, bursts: Sequence[tuple[int, BurstKey, int]]) -> None:
        """List bursts. Each is given by its opening time in milliseconds, its key and the write timestamp."""
        slots = {opened_at // SLOT_MS for opened_at, _, _ in bursts}
        # Write the slots first. A crash then leaves slots without bursts, which are scanned in vain. A burst whose slot
        # is not stored would be found by no full scan.
        try:
            self._cluster.query_each(
                _INSERT_SLOT, [(hour_of(slot * SLOT_MS), slot) for slot in slots - self._stored_slots]
            )
            self._stored_slots = slots if len(self._stored_slots) > MAX_STORED_SLOTS else self._stored_slots | slots
            self._cluster.query_each(
                _INSERT_BURST, [(*_burst_row(opened_at, burst), at) for opened_at, burst, at in bursts]
            )
        except StoreUnavailable:
            # Forget the stored slots, so that they are stored again. A node that was down may have lost slots that it
            # had acknowledged.
            self._stored_slots = set()
            raise
        finally:
            self._cache.invalidate(slots)

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        now = self._clock.now()
        first_ms = max(to_ms(moment), to_ms(now) - TTL_MS)
        slots = range(first_ms // SLOT_MS, to_ms(now + READ_AHEAD) // SLOT_MS + 1)
        return [key for _, key in self._read_bursts(dict.fromkeys(slots, to_ms(moment)))]

    def all(self) -> Sequence[BurstKey]:
        with self._scan_lock:
            scan = self._cache.begin(to_ms(self._clock.now()))
            try:
                slots_by_hour = {**scan.cached_slots, **self._read_slots(scan.hours_to_read)}
                scan_starts = self._cache.scan_starts(scan, slots_by_hour)
                entries = self._read_bursts(scan_starts)
            except Exception:
                self._cache.abort(scan)
                raise
            oldest_openings = {opened_at // SLOT_MS: opened_at for opened_at, _ in reversed(entries)}
            self._cache.finish(scan, slots_by_hour, scan_starts, oldest_openings)
            self._last_scan = entries
        return [key for _, key in entries]

    def _read_slots(self, hours: Collection[int]) -> Mapping[int, Collection[int]]:
        slots: dict[int, list[int]] = {hour: [] for hour in hours}
        queries = [(list(slots)[n : n + PARTITIONS_PER_QUERY],) for n in range(0, len(slots), PARTITIONS_PER_QUERY)]
        for hour, slot in (tuple(row) for rows in self._cluster.query_each(_SELECT_SLOTS, queries) for row in rows):
            slots[hour].append(slot)
        return slots

    def _read_bursts(self, scan_starts: Mapping[int, int]) -> Sequence[UnfinishedBurstEntry]:
        """Return the unfinished bursts of each slot from its scan start on, ordered by opening time."""
        slots_by_start = defaultdict[int, list[int]](list)
        for slot, start in scan_starts.items():
            slots_by_start[start].append(slot)
        queries = [
            (slots[n : n + PARTITIONS_PER_QUERY], start)
            for start, slots in slots_by_start.items()
            for n in range(0, len(slots), PARTITIONS_PER_QUERY)
        ]
        rows = [tuple(row) for rows in self._cluster.query_each(_SELECT_BURSTS, queries) for row in rows]
        return [(opened_at, BurstKey(Subject.parse(subject), seq)) for opened_at, subject, seq in sorted(rows)]


def _burst_row(opened_at: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return opened_at // SLOT_MS, opened_at, str(burst.subject), burst.seq
