"""What a process remembers of the list of open bursts, so that a look at all of it asks for little."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock

from notifier.adapters.cassandra.parts import hour_of

SLOT = 30_000
"""Milliseconds. Of each slot's bursts a tombstone stays, and a look that passes 100,000 of them is refused."""
LISTED_FOR = 8 * 24 * 3_600_000
"""The tables' defaults; no TTL is bound."""
LATE = 60_000
"""What is listed sooner than so long after its opening is found by the next look at all."""
ANEW = 4
"""Hours that each look at all begins anew with: asked once a second, all of them within a minute."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at all, as it is begun."""

    now: int
    """Before it asked: of what is listed later nothing is concluded."""
    anew: Collection[int]
    """Hours of which nothing is taken for known."""
    known: Mapping[int, Collection[int]]
    unread: Collection[int]
    """Hours whose slots are to be asked for."""


@dataclass(slots=True)
class Remembered:
    """Which slots there are, by hour, and before which moment nothing in them is open.

    Thread-safe, for one look at a time.
    """

    looked: int = 0
    """When the last look that succeeded was begun."""
    hours: dict[int, Collection[int]] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)
    """The hour that was begun anew longest ago comes first."""
    _touched: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def touch(self, slots: Collection[int]) -> None:
        """Something was listed there by ourselves, maybe while a look is on its way."""
        with self._lock:
            self._touched.update(slots)
            self._forget(slots)

    def begin(self, now: int) -> Look:
        every = range(hour_of(now - LISTED_FOR), hour_of(now + LATE) + 1)
        with self._lock:
            self._touched.clear()
            self.turns = [hour for hour in self.turns if hour in every]
            anew = self.turns[:ANEW]
            # An hour gets slots until it is over, and for as long as somebody may be late: seen by a look after that.
            over = hour_of(min(self.looked, now) - LATE)
            known = {h: slots for h, slots in self.hours.items() if h in every and h < over and h not in anew}
        return Look(now, anew, known, [hour for hour in every if hour not in known])

    def moments(self, look: Look, hours: Mapping[int, Collection[int]]) -> Mapping[int, int]:
        """From when on each slot is to be looked at; those that are over and have nothing open are left out."""
        with self._lock:
            found = {s: 0 if h in look.anew else self.first.get(s, 0) for h, slots in hours.items() for s in slots}
        return {slot: moment for slot, moment in found.items() if moment < end(slot)}

    def end(
        self, look: Look, hours: Mapping[int, Collection[int]], looked: Collection[int], oldest: Mapping[int, int]
    ) -> None:
        """`oldest`: of each slot that was looked at and has something open."""
        settled = look.now - LATE
        with self._lock:
            self.first = {slot: moment for slot, moment in self.first.items() if hour_of(slot * SLOT) in hours}
            self.first |= {slot: min(oldest.get(slot, end(slot)), settled) for slot in looked}
            self.hours, self.looked = dict(hours), look.now
            self._take_turns(look.anew, hours)
            self._forget(self._touched)

    def put_off(self, look: Look) -> None:
        """It failed. What can't be read from its beginning mustn't stop every look from now on: others come first."""
        with self._lock:
            self._take_turns(look.anew, ())

    def _take_turns(self, anew: Collection[int], hours: Collection[int]) -> None:
        rest = [hour for hour in self.turns if hour not in anew]
        self.turns = [*rest, *(hour for hour in hours if hour not in self.turns), *anew]

    def _forget(self, slots: Collection[int]) -> None:
        for slot in slots:
            self.first.pop(slot, None)
            self.hours.pop(hour_of(slot * SLOT), None)


def end(slot: int) -> int:
    return (slot + 1) * SLOT
