"""What a process remembers of the open list: little is asked for, and what comes late is found within the minute."""

from dataclasses import dataclass, field

from notifier.adapters.cassandra.schema.partitioning import hour_of
from notifier.adapters.cassandra.stores.open_bursts import ANEW, LATE, LISTED_FOR, SLOT, Remembered

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOON = 1_767_614_400_000
WITHIN = LISTED_FOR // HOUR // ANEW + 2
"""Looks, one a second."""


@dataclass
class Store:
    """Openings by slot, and what a look into it finds by what is remembered."""

    remembered: Remembered = field(default_factory=Remembered)
    open: set[int] = field(default_factory=set)
    slots: set[int] = field(default_factory=set)
    unreadable: int | None = None
    """A slot that can't be read from its beginning."""
    asked: int = 0
    meanwhile: int | None = None
    """Listed by ourselves while a look is on its way and has read what there is."""

    def list(self, opened: int) -> None:
        self.open.add(opened)
        self.slots.add(opened // SLOT)

    def look(self, now: int) -> set[int] | None:
        """None where it fails."""
        look = self.remembered.begin(now)
        read = {hour: [slot for slot in self.slots if hour_of(slot * SLOT) == hour] for hour in look.unread}
        hours = {**look.known, **read}
        moments = self.remembered.moments(look, hours)
        self.asked += len(moments)
        if moments.get(self.unreadable or -1) == 0:
            self.remembered.put_off(look)
            return None
        found = {opened for opened in self.open if opened >= moments.get(opened // SLOT, opened + 1)}
        if self.meanwhile is not None:
            self.list(self.meanwhile)
            self.remembered.touch({self.meanwhile // SLOT})
            self.meanwhile = None
        self.remembered.end(look, hours, moments, {at // SLOT: at for at in sorted(found, reverse=True)})
        return found

    def looks_until(self, opened: int, now: int) -> int:
        """One a second."""
        for n in range(1, 10 * WITHIN):
            if opened in (self.look(now + n * SECOND) or ()):
                return n
        raise AssertionError("never found")


def quiet(*seen: int, now: int = NOON) -> Store:
    """Of long ago: these were open, and have ended; every look since then succeeded."""
    store = Store()
    for opened in seen:
        store.list(opened)
    store.look(now - 5 * SECOND)
    store.open.clear()
    for second in range(4):
        store.look(now - (4 - second) * SECOND)
    return store


def test_what_is_listed_in_time_is_found_by_the_next_look_also_in_a_slot_that_was_empty() -> None:
    for minute in (1, 20, 40, 59):
        now = NOON + minute * MINUTE
        store = quiet(now - 50 * SECOND, now=now)
        store.list(now - 49 * SECOND)
        assert store.looks_until(now - 49 * SECOND, now) == 1


def test_what_is_listed_late_is_found_within_the_minute_also_in_the_current_hour() -> None:
    for minute in (2, 20, 40, 58):
        now = NOON + minute * MINUTE
        opened = now - 110 * SECOND
        store = quiet(opened, now=now)
        store.list(opened)
        assert store.looks_until(opened, now) <= WITHIN


def test_a_slot_that_can_t_be_read_from_its_beginning_stops_one_look_in_many() -> None:
    store = quiet(NOON - 5 * HOUR, NOON - 3 * HOUR)
    store.unreadable = (NOON - 5 * HOUR) // SLOT
    looks = [store.look(NOON + n * SECOND) for n in range(3 * WITHIN)]
    assert 1 <= sum(found is None for found in looks) <= 4


def test_who_hasn_t_looked_for_a_while_finds_what_has_opened_meanwhile() -> None:
    store = quiet(NOON + 4 * MINUTE, now=NOON + 5 * MINUTE)
    for minutes in (10, 30, 59):
        store.list(NOON + minutes * MINUTE)
    now = NOON + 70 * MINUTE
    assert store.look(now) == {NOON + minutes * MINUTE for minutes in (10, 30, 59)}


def test_what_came_in_time_at_the_turn_of_an_hour_is_found_by_the_next_look() -> None:
    now = NOON + MINUTE - 300  # by the last look the hour before noon was about to be over
    store = quiet(NOON - 5 * MINUTE, now=now)
    opened = now + 600 - LATE
    store.list(opened)
    assert store.looks_until(opened, now) == 1


def test_what_one_lists_oneself_however_late_is_found_by_the_next_look_also_while_another_is_on_its_way() -> None:
    opened = NOON - 2 * HOUR
    store = quiet(opened)
    store.meanwhile = opened
    assert store.look(NOON) == set()
    assert store.looks_until(opened, NOON) == 1


def test_a_clock_that_was_ahead_for_an_hour_hides_nothing_for_long() -> None:
    store = quiet(NOON - MINUTE)
    store.look(NOON + 2 * HOUR)
    opened = NOON + 30 * MINUTE
    store.list(opened)
    assert store.looks_until(opened, NOON + 30 * MINUTE) == 1


def test_what_has_ended_is_looked_at_once_a_minute_and_what_is_too_old_not_at_all() -> None:
    store = quiet(*(NOON - hours * HOUR for hours in range(1, 190)))
    store.asked = 0
    for n in range(WITHIN):
        store.look(NOON + n * SECOND)
    assert 180 <= store.asked <= 230
    assert store.look(NOON + 2 * LISTED_FOR) == set()
    assert (store.remembered.first, set(map(len, store.remembered.hours.values()))) == ({}, {0})
