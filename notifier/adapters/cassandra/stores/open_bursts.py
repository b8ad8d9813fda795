"""The list of open bursts, in slots of openings. A past slot is looked at from its oldest open burst on; one in which
nothing was ever listed isn't looked at at all."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import hour_of
from notifier.codec.storage import to_ms, to_us
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.delivery.plan import Plan
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock

# What a process remembers of the list of open bursts, so that a look at all of it asks for little.

SLOT = 30_000
"""Milliseconds. Of each slot's bursts a tombstone stays, and a look that passes 100,000 of them is refused."""
LISTED_FOR = 8 * 24 * 3_600_000
"""The tables' defaults; no TTL is bound."""
LATE = 60_000
"""What is listed sooner than so long after its opening is found by the next look at all."""
ANEW = 4
"""Hours that each look at all begins anew with: asked once a second, all of them within a minute."""


@dataclass(frozen=True, slots=True)
class OpenBurstScan:
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

    def begin(self, now: int) -> OpenBurstScan:
        every = range(hour_of(now - LISTED_FOR), hour_of(now + LATE) + 1)
        with self._lock:
            self._touched.clear()
            self.turns = [hour for hour in self.turns if hour in every]
            anew = self.turns[:ANEW]
            # An hour gets slots until it is over, and for as long as somebody may be late: seen by a look after that.
            over = hour_of(min(self.looked, now) - LATE)
            known = {h: slots for h, slots in self.hours.items() if h in every and h < over and h not in anew}
        return OpenBurstScan(now, anew, known, [hour for hour in every if hour not in known])

    def moments(self, look: OpenBurstScan, hours: Mapping[int, Collection[int]]) -> Mapping[int, int]:
        """From when on each slot is to be looked at; those that are over and have nothing open are left out."""
        with self._lock:
            found = {s: 0 if h in look.anew else self.first.get(s, 0) for h, slots in hours.items() for s in slots}
        return {slot: moment for slot, moment in found.items() if moment < end(slot)}

    def end(
        self,
        look: OpenBurstScan,
        hours: Mapping[int, Collection[int]],
        looked: Collection[int],
        oldest: Mapping[int, int],
    ) -> None:
        """`oldest`: of each slot that was looked at and has something open."""
        settled = look.now - LATE
        with self._lock:
            self.first = {slot: moment for slot, moment in self.first.items() if hour_of(slot * SLOT) in hours}
            self.first |= {slot: min(oldest.get(slot, end(slot)), settled) for slot in looked}
            self.hours, self.looked = dict(hours), look.now
            self._take_turns(look.anew, hours)
            self._forget(self._touched)

    def put_off(self, look: OpenBurstScan) -> None:
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


_ADD_SLOT = "INSERT INTO open_slots (hour, slot) VALUES (?, ?)"
_SLOTS = "SELECT hour, slot FROM open_slots WHERE hour IN ?"
_ADD = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_LOOK = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DROP = "DELETE FROM open_bursts USING TIMESTAMP ? WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

AHEAD = timedelta(seconds=5)
"""So far the clock of whoever opens a burst may be ahead, and a look at the latest still finds it."""
TOGETHER = 64
"""Partitions in one question: nearly all of them are empty."""
ADDED = 4_096
"""Slots that are known to be noted."""


Place = tuple[int, BurstKey]
"""A burst's opening and key."""


class OpenBursts:
    """Each write says by its timestamp when it was decided, so that of two the one that was decided later stands,
    whoever is late or has another clock: what was laid down and woke is listed since its waking, which is after the
    moment at which anybody laid it down.

    A whole look would ask for 23,040 slots every second, and pass the tombstones of a week: it asks for what is not
    remembered. What another process lists later than `LATE` is found within the minute.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._added: set[int] = set()
        self._remembered = Remembered()
        self._looking = Lock()
        self._places: Sequence[Place] = ()

    def add(self, plans: Sequence[Plan]) -> None:
        at = to_us(self._clock.now())
        self._list([(to_ms(plan.opened_at), plan.burst, at) for plan in plans])

    def back(self, sleepers: Sequence[Sleeper]) -> None:
        self._list([(to_ms(one.opened_at), one.burst, to_us(one.until)) for one in sleepers])

    def drop(self, places: Iterable[Place], at: datetime) -> None:
        """Wherever they are listed: of two that would have planned a burst, one may have listed another opening."""
        gone = set(places)
        gone |= {place for place in self._places if place[1] in {burst for _, burst in gone}}
        self._cluster.ask_each(_DROP, [(to_us(at), *_row(*place)) for place in gone])

    def _list(self, rows: Sequence[tuple[int, BurstKey, int]]) -> None:
        slots = {ms // SLOT for ms, _, _ in rows}
        # The slot first: one that is noted and empty is looked at in vain, one that isn't noted would never be.
        try:
            self._cluster.ask_each(_ADD_SLOT, [(hour_of(slot * SLOT), slot) for slot in slots - self._added])
            self._added = slots if len(self._added) > ADDED else self._added | slots
            self._cluster.ask_each(_ADD, [(*_row(ms, burst), at) for ms, burst, at in rows])
        except StoreUnavailable:
            self._added = set()  # who comes back may have forgotten what he had said to have
            raise
        finally:
            self._remembered.touch(slots)

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        now = self._clock.now()
        first = max(to_ms(moment), to_ms(now) - LISTED_FOR)
        slots = range(first // SLOT, to_ms(now + AHEAD) // SLOT + 1)
        return [key for _, key in self._look(dict.fromkeys(slots, to_ms(moment)))]

    def all(self) -> Sequence[BurstKey]:
        with self._looking:
            look = self._remembered.begin(to_ms(self._clock.now()))
            try:
                hours = {**look.known, **self._read(look.unread)}
                moments = self._remembered.moments(look, hours)
                places = self._look(moments)
            except Exception:
                self._remembered.put_off(look)
                raise
            self._remembered.end(look, hours, moments, {ms // SLOT: ms for ms, _ in reversed(places)})
            self._places = places
        return [key for _, key in places]

    def _read(self, hours: Collection[int]) -> Mapping[int, Collection[int]]:
        """Their slots."""
        found: dict[int, list[int]] = {hour: [] for hour in hours}
        asks = [(list(found)[n : n + TOGETHER],) for n in range(0, len(found), TOGETHER)]
        for hour, slot in (tuple(row) for rows in self._cluster.ask_each(_SLOTS, asks) for row in rows):
            found[hour].append(slot)
        return found

    def _look(self, moments: Mapping[int, int]) -> Sequence[Place]:
        """Into each slot, from its moment on; oldest first."""
        looks = defaultdict[int, list[int]](list)
        for slot, moment in moments.items():
            looks[moment].append(slot)
        asks = [(some[n : n + TOGETHER], first) for first, some in looks.items() for n in range(0, len(some), TOGETHER)]
        found = [tuple(row) for rows in self._cluster.ask_each(_LOOK, asks) for row in rows]
        return [(ms, BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in sorted(found)]


def _row(ms: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return ms // SLOT, ms, str(burst.subject), burst.seq
