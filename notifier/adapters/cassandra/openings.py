"""The list of open bursts, in slots of openings. A past slot is looked at from its oldest open burst on; one in which
nothing was ever listed isn't looked at at all."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from notifier.adapters.cassandra.parts import hour_of
from notifier.adapters.cassandra.session import Cluster
from notifier.codec.moments import to_ms
from notifier.domain.plan import Plan
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.clock import Clock

_ADD_SLOT = "INSERT INTO open_slots (hour, slot) VALUES (?, ?)"
_SLOTS = "SELECT hour, slot FROM open_slots WHERE hour IN ?"
_ADD = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?)"
_LOOK = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DROP = "DELETE FROM open_bursts WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

SLOT = 30_000
"""Milliseconds. Of each slot's bursts a tombstone stays, and a look that passes 100,000 of them is refused."""
LISTED_FOR = timedelta(days=8)
"""The tables' defaults; no TTL is bound."""
LATE = timedelta(minutes=1)
"""What is listed sooner than so long after its opening is found by the next look at all."""
AHEAD = timedelta(seconds=5)
"""So far the clock of whoever opens a burst may be ahead, and a look at the latest still finds it."""
FORGOTTEN = 4
"""Hours that each look at all begins anew with: asked once a second, all of them within a minute."""
TOGETHER = 64
"""Partitions in one question: nearly all of them are empty."""
ADDED = 4_096
"""Slots that are remembered as noted."""


class OpenBursts:
    """Remembers, for this process, which slots there are, and before which moment nothing in them is open: every second
    a whole look would ask for 23,040 slots, and pass the tombstones of a week. What another process lists later than
    `LATE` is found within the minute.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._added: set[int] = set()
        self._hours: dict[int, Collection[int]] = {}
        """The slots of each; the hour that was read longest ago comes first."""
        self._first: dict[int, int] = {}
        self._places: Sequence[tuple[int, BurstKey]] = ()

    def add(self, plans: Sequence[Plan]) -> None:
        slots = {to_ms(plan.opened_at) // SLOT for plan in plans}
        # The slot first: one that is noted and empty is looked at in vain, one that isn't noted would never be.
        self._cluster.ask_each(_ADD_SLOT, [(hour_of(slot * SLOT), slot) for slot in slots - self._added])
        self._added = slots if len(self._added) > ADDED else self._added | slots
        self._cluster.ask_each(_ADD, [_row(to_ms(plan.opened_at), plan.burst) for plan in plans])
        for slot in slots:
            self._first.pop(slot, None)
            self._hours.pop(hour_of(slot * SLOT), None)

    def drop(self, plans: Iterable[Plan]) -> None:
        """Wherever they are listed: of two that would have planned a burst, one may have listed another opening."""
        places = {(to_ms(plan.opened_at), plan.burst) for plan in plans}
        places |= {place for place in self._places if place[1] in {burst for _, burst in places}}
        self._cluster.ask_each(_DROP, [_row(*place) for place in places])

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        now = self._clock.now()
        first = to_ms(max(moment, now - LISTED_FOR))
        slots = range(first // SLOT, to_ms(now + AHEAD) // SLOT + 1)
        return [key for _, key in self._look({to_ms(moment): slots})]

    def all(self) -> Sequence[BurstKey]:
        now = self._clock.now()  # before the look: of what is listed later nothing is concluded
        forgotten = list(islice(self._hours, FORGOTTEN))
        hours = self._read(now, forgotten)
        first = {slot: self._first.get(slot, 0) for slots in hours.values() for slot in slots}
        first |= {slot: 0 for hour in forgotten for slot in hours.get(hour, ())}
        looks = defaultdict(list)
        for slot, moment in first.items():
            if moment < _end(slot):
                looks[moment].append(slot)
        self._places = self._look(looks)
        # Only now that all of it is read: else a slot that can't be read from its beginning would be asked for it by
        # every look from now on.
        settled, oldest = to_ms(now - LATE), {ms // SLOT: ms for ms, _ in reversed(self._places)}
        looked = {slot: min(oldest.get(slot, _end(slot)), settled) for slots in looks.values() for slot in slots}
        self._hours, self._first = hours, first | looked
        return [key for _, key in self._places]

    def _read(self, now: datetime, forgotten: Collection[int]) -> dict[int, Collection[int]]:
        """The slots of all hours: those that are known, and those that may have got more since they were read."""
        late = hour_of(to_ms(now - LATE))
        every = range(hour_of(to_ms(now - LISTED_FOR)), hour_of(to_ms(now + LATE)) + 1)
        kept = [hour for hour in self._hours if hour in every and hour < late and hour not in forgotten]
        known = {hour: self._hours[hour] for hour in kept}
        read: dict[int, list[int]] = {hour: [] for hour in every if hour not in known}
        asks = [(list(read)[n : n + TOGETHER],) for n in range(0, len(read), TOGETHER)]
        for hour, slot in (tuple(row) for rows in self._cluster.ask_each(_SLOTS, asks) for row in rows):
            read[hour].append(slot)
        return known | read

    def _look(self, looks: Mapping[int, Sequence[int]]) -> Sequence[tuple[int, BurstKey]]:
        """From each moment on in the slots that are to be looked at from there; oldest first."""
        asks = [
            (list(some[n : n + TOGETHER]), first)
            for first, some in looks.items()
            for n in range(0, len(some), TOGETHER)
        ]
        found = [tuple(row) for rows in self._cluster.ask_each(_LOOK, asks) for row in rows]
        return [(ms, BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in sorted(found)]


def _end(slot: int) -> int:
    return (slot + 1) * SLOT


def _row(ms: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return ms // SLOT, ms, str(burst.subject), burst.seq
