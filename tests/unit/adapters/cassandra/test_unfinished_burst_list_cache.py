"""Cached scan of unfinished bursts: few queries, and late entries found within a minute."""

from dataclasses import dataclass, field

from notifier.adapters.cassandra.schema.partition_keys_and_ttls import hour_of
from notifier.adapters.cassandra.stores.unfinished_bursts import (
    MAX_LISTING_DELAY_MS,
    RESCANNED_HOURS_PER_SCAN,
    SLOT_MS,
    TTL_MS,
    OpenSlotCache,
)

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOON = 1_767_614_400_000
MAX_SCANS = TTL_MS // HOUR // RESCANNED_HOURS_PER_SCAN + 2
"""Maximum number of scans until a late burst is found; there is one scan a second."""


@dataclass
class BurstList:
    """Unfinished bursts by slot, scanned with the remembered state."""

    remembered: OpenSlotCache = field(default_factory=OpenSlotCache)
    open: set[int] = field(default_factory=set)
    slots: set[int] = field(default_factory=set)
    unreadable: int | None = None
    """A slot that can't be read from its start."""
    slots_read: int = 0
    listed_during_scan: int | None = None
    """Burst that this process lists during a scan, after the scan has read its rows."""

    def list(self, opened: int) -> None:
        self.open.add(opened)
        self.slots.add(opened // SLOT_MS)

    def scan(self, now: int) -> set[int] | None:
        """Return the unfinished bursts that a scan finds, or None if it fails."""
        scan = self.remembered.begin(now)
        read = {hour: [slot for slot in self.slots if hour_of(slot * SLOT_MS) == hour] for hour in scan.hours_to_read}
        hours = {**scan.cached_slots, **read}
        scan_starts_ms = self.remembered.scan_starts(scan, hours)
        self.slots_read += len(scan_starts_ms)
        if scan_starts_ms.get(self.unreadable or -1) == 0:
            self.remembered.abort(scan)
            return None
        result = {opened for opened in self.open if opened >= scan_starts_ms.get(opened // SLOT_MS, opened + 1)}
        if self.listed_during_scan is not None:
            self.list(self.listed_during_scan)
            self.remembered.invalidate({self.listed_during_scan // SLOT_MS})
            self.listed_during_scan = None
        self.remembered.finish(scan, hours, scan_starts_ms, {at // SLOT_MS: at for at in sorted(result, reverse=True)})
        return result

    def scans_until(self, opened: int, now: int) -> int:
        """Return how many scans, at one per second, it takes to find the burst."""
        for n in range(1, 10 * MAX_SCANS):
            if opened in (self.scan(now + n * SECOND) or ()):
                return n
        raise AssertionError("never found")


def scanned(*ended: int, now: int = NOON) -> BurstList:
    """Return a store whose bursts were scanned and have ended, with successful scans since then."""
    store = BurstList()
    for opened in ended:
        store.list(opened)
    store.scan(now - 5 * SECOND)
    store.open.clear()
    for second in range(4):
        store.scan(now - (4 - second) * SECOND)
    return store


def test_burst_listed_in_time_is_found_by_next_scan() -> None:
    for minute in (1, 20, 40, 59):
        now = NOON + minute * MINUTE
        store = scanned(now - 50 * SECOND, now=now)
        store.list(now - 49 * SECOND)
        assert store.scans_until(now - 49 * SECOND, now) == 1


def test_burst_listed_late_is_found_within_a_minute() -> None:
    for minute in (2, 20, 40, 58):
        now = NOON + minute * MINUTE
        opened = now - 110 * SECOND
        store = scanned(opened, now=now)
        store.list(opened)
        assert store.scans_until(opened, now) <= MAX_SCANS


def test_unreadable_slot_fails_few_scans() -> None:
    store = scanned(NOON - 5 * HOUR, NOON - 3 * HOUR)
    store.unreadable = (NOON - 5 * HOUR) // SLOT_MS
    scans = [store.scan(NOON + n * SECOND) for n in range(3 * MAX_SCANS)]
    assert 1 <= sum(result is None for result in scans) <= 4


def test_scan_after_a_pause_finds_bursts_opened_meanwhile() -> None:
    store = scanned(NOON + 4 * MINUTE, now=NOON + 5 * MINUTE)
    for minutes in (10, 30, 59):
        store.list(NOON + minutes * MINUTE)
    now = NOON + 70 * MINUTE
    assert store.scan(now) == {NOON + minutes * MINUTE for minutes in (10, 30, 59)}


def test_burst_listed_at_turn_of_hour_is_found_by_next_scan() -> None:
    now = NOON + MINUTE - 300  # at the last scan the hour before noon was about to end
    store = scanned(NOON - 5 * MINUTE, now=now)
    opened = now + 600 - MAX_LISTING_DELAY_MS
    store.list(opened)
    assert store.scans_until(opened, now) == 1


def test_own_burst_listed_during_scan_is_found_by_next_scan() -> None:
    opened = NOON - 2 * HOUR
    store = scanned(opened)
    store.listed_during_scan = opened
    assert store.scan(NOON) == set()
    assert store.scans_until(opened, NOON) == 1


def test_clock_that_was_hours_ahead_hides_no_bursts() -> None:
    store = scanned(NOON - MINUTE)
    store.scan(NOON + 2 * HOUR)
    opened = NOON + 30 * MINUTE
    store.list(opened)
    assert store.scans_until(opened, NOON + 30 * MINUTE) == 1


def test_ended_slots_are_read_once_a_minute_and_expired_never() -> None:
    store = scanned(*(NOON - hours * HOUR for hours in range(1, 190)))
    store.slots_read = 0
    for n in range(MAX_SCANS):
        store.scan(NOON + n * SECOND)
    assert 180 <= store.slots_read <= 230
    assert store.scan(NOON + 2 * TTL_MS) == set()
    assert (store.remembered.start_by_slot, set(map(len, store.remembered.slots_by_hour.values()))) == ({}, {0})
