"""Lists open bursts, in slots of opening time.

A past slot is scanned from its oldest open burst on. A slot in which nothing was ever listed isn't scanned.
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

# Memory of a process about the list of open bursts, so that a full scan queries little.

SLOT = 30_000
"""Slot length in milliseconds. Each burst leaves a tombstone in its slot; a scan over 100,000 of them is rejected."""
LISTED_FOR = 8 * 24 * 3_600_000
"""Milliseconds: the default TTL of the tables; no TTL is bound."""
LATE = 60_000
"""Milliseconds. The next full scan finds every burst that is listed within this time after its opening."""
RESCANNED_PER_SCAN = 4
"""Hours that each full scan reads again from the start. At one scan per second all hours are read within a minute."""


@dataclass(frozen=True, slots=True)
class OpenBurstScan:
    """State of a full scan at its beginning."""

    now: int
    """Time before the first query. Nothing is concluded about bursts that are listed later."""
    rescanned_hours: Collection[int]
    """Hours that are read without remembered state."""
    known_slots: Mapping[int, Collection[int]]
    unread_hours: Collection[int]
    """Hours whose slots are to be queried."""


@dataclass(slots=True)
class OpenSlotCache:
    """Known slots by hour, and the time before which nothing in a slot is open.

    Thread-safe, for one scan at a time.
    """

    scanned_at: int = 0
    """Start of the last successful scan."""
    slots: dict[int, Collection[int]] = field(default_factory=dict)
    open_since: dict[int, int] = field(default_factory=dict)
    rescan_order: list[int] = field(default_factory=list)
    """Hours in the order in which they are read again. The hour that was read longest ago comes first."""
    _touched: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def touch(self, slots: Collection[int]) -> None:
        """Record that this process listed bursts in the slots, maybe during a scan."""
        with self._lock:
            self._touched.update(slots)
            self._forget(slots)

    def begin(self, now: int) -> OpenBurstScan:
        all_hours = range(hour_of(now - LISTED_FOR), hour_of(now + LATE) + 1)
        with self._lock:
            self._touched.clear()
            self.rescan_order = [hour for hour in self.rescan_order if hour in all_hours]
            rescanned = self.rescan_order[:RESCANNED_PER_SCAN]
            # An hour gets new slots until it is over, plus the time that writers may be late. It is known by a scan
            # after that.
            expired = hour_of(min(self.scanned_at, now) - LATE)
            known = {
                h: slots for h, slots in self.slots.items() if h in all_hours and h < expired and h not in rescanned
            }
        return OpenBurstScan(now, rescanned, known, [hour for hour in all_hours if hour not in known])

    def scan_starts(self, scan: OpenBurstScan, hours: Mapping[int, Collection[int]]) -> Mapping[int, int]:
        """Return the time from which on each slot is scanned. Past slots without open bursts are left out."""
        with self._lock:
            starts = {
                s: 0 if h in scan.rescanned_hours else self.open_since.get(s, 0)
                for h, slots in hours.items()
                for s in slots
            }
        return {slot: moment for slot, moment in starts.items() if moment < slot_end(slot)}

    def finish(
        self,
        scan: OpenBurstScan,
        hours: Mapping[int, Collection[int]],
        scanned: Collection[int],
        oldest: Mapping[int, int],
    ) -> None:
        """Finish a successful scan. `oldest` has the oldest open burst of each scanned slot that has one."""
        settled = scan.now - LATE
        with self._lock:
            self.open_since = {
                slot: moment for slot, moment in self.open_since.items() if hour_of(slot * SLOT) in hours
            }
            self.open_since |= {slot: min(oldest.get(slot, slot_end(slot)), settled) for slot in scanned}
            self.slots, self.scanned_at = dict(hours), scan.now
            self._reorder(scan.rescanned_hours, hours)
            self._forget(self._touched)

    def abort(self, scan: OpenBurstScan) -> None:
        """Finish a failed scan.

        An hour that can't be read from its start must not fail all further scans: others are next.
        """
        with self._lock:
            self._reorder(scan.rescanned_hours, ())

    def _reorder(self, rescanned: Collection[int], hours: Collection[int]) -> None:
        remaining = [hour for hour in self.rescan_order if hour not in rescanned]
        self.rescan_order = [*remaining, *(hour for hour in hours if hour not in self.rescan_order), *rescanned]

    def _forget(self, slots: Collection[int]) -> None:
        for slot in slots:
            self.open_since.pop(slot, None)
            self.slots.pop(hour_of(slot * SLOT), None)


def slot_end(slot: int) -> int:
    return (slot + 1) * SLOT


_ADD_SLOT = "INSERT INTO open_slots (hour, slot) VALUES (?, ?)"
_SLOTS = "SELECT hour, slot FROM open_slots WHERE hour IN ?"
_ADD = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_LOOK = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DROP = "DELETE FROM open_bursts USING TIMESTAMP ? WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

AHEAD = timedelta(seconds=5)
"""Tolerance for the clock of the process that opens a burst: a scan of the latest bursts still finds it."""
TOGETHER = 64
"""Partitions per query. Nearly all of them are empty."""
ADDED = 4_096
"""Slots that are known to be in `open_slots`."""


ListedBurst = tuple[int, BurstKey]
"""Opening and key of a burst."""


class OpenBursts:
    """List of the open bursts.

    The write timestamp is the time of the decision, so that the later decision wins regardless of delays and clocks.
    A woken burst is listed as of its wake-up time, which is after every decision to defer it.

    A scan of everything would query 23,040 slots every second, and skip the tombstones of a week. It queries only what
    isn't remembered. Bursts that another process lists later than `LATE` are found within a minute.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._added: set[int] = set()
        self._remembered = OpenSlotCache()
        self._looking = Lock()
        self._places: Sequence[ListedBurst] = ()

    def add(self, plans: Sequence[Plan]) -> None:
        at = to_us(self._clock.now())
        self._list([(to_ms(plan.opened_at), plan.burst, at) for plan in plans])

    def reopen(self, deferred_bursts: Sequence[DeferredBurst]) -> None:
        self._list([(to_ms(deferred.opened_at), deferred.burst, to_us(deferred.until)) for deferred in deferred_bursts])

    def drop(self, places: Iterable[ListedBurst], at: datetime) -> None:
        """Remove the bursts wherever they are listed. Of two planning processes one may have listed another opening."""
        removed = set(places)
        removed |= {place for place in self._places if place[1] in {burst for _, burst in removed}}
        self._cluster.query_each(_DROP, [(to_us(at), *_row(*place)) for place in removed])

    def _list(self, rows: Sequence[tuple[int, BurstKey, int]]) -> None:
        slots = {ms // SLOT for ms, _, _ in rows}
        # Write the slot first: a listed empty slot is scanned in vain, but an unlisted slot would never be scanned.
        try:
            self._cluster.query_each(_ADD_SLOT, [(hour_of(slot * SLOT), slot) for slot in slots - self._added])
            self._added = slots if len(self._added) > ADDED else self._added | slots
            self._cluster.query_each(_ADD, [(*_row(ms, burst), at) for ms, burst, at in rows])
        except StoreUnavailable:
            self._added = set()  # a node that comes back may have lost writes that it had acknowledged
            raise
        finally:
            self._remembered.touch(slots)

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        now = self._clock.now()
        first = max(to_ms(moment), to_ms(now) - LISTED_FOR)
        slots = range(first // SLOT, to_ms(now + AHEAD) // SLOT + 1)
        return [key for _, key in self._open_in(dict.fromkeys(slots, to_ms(moment)))]

    def all(self) -> Sequence[BurstKey]:
        with self._looking:
            scan = self._remembered.begin(to_ms(self._clock.now()))
            try:
                hours = {**scan.known_slots, **self._read(scan.unread_hours)}
                moments = self._remembered.scan_starts(scan, hours)
                places = self._open_in(moments)
            except Exception:
                self._remembered.abort(scan)
                raise
            self._remembered.finish(scan, hours, moments, {ms // SLOT: ms for ms, _ in reversed(places)})
            self._places = places
        return [key for _, key in places]

    def _read(self, hours: Collection[int]) -> Mapping[int, Collection[int]]:
        """Return the slots of each hour."""
        slots: dict[int, list[int]] = {hour: [] for hour in hours}
        asks = [(list(slots)[n : n + TOGETHER],) for n in range(0, len(slots), TOGETHER)]
        for hour, slot in (tuple(row) for rows in self._cluster.query_each(_SLOTS, asks) for row in rows):
            slots[hour].append(slot)
        return slots

    def _open_in(self, moments: Mapping[int, int]) -> Sequence[ListedBurst]:
        """Return the open bursts of each slot, from its start time on; oldest first."""
        by_moment = defaultdict[int, list[int]](list)
        for slot, moment in moments.items():
            by_moment[moment].append(slot)
        asks = [
            (slots[n : n + TOGETHER], first)
            for first, slots in by_moment.items()
            for n in range(0, len(slots), TOGETHER)
        ]
        listed = [tuple(row) for rows in self._cluster.query_each(_LOOK, asks) for row in rows]
        return [(ms, BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in sorted(listed)]


def _row(ms: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return ms // SLOT, ms, str(burst.subject), burst.seq
