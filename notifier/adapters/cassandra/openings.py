"""The list of open bursts, in slots of openings; a past slot is looked at from its oldest burst on."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from notifier.adapters.cassandra.session import Cluster
from notifier.codec.moments import to_ms
from notifier.domain.errors import StoreUnavailable
from notifier.domain.plan import Plan
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.clock import Clock

_ADD = "INSERT INTO open_bursts (slot, opened_at, subject, seq) VALUES (?, ?, ?, ?)"
_LOOK = "SELECT opened_at, subject, seq FROM open_bursts WHERE slot IN ? AND opened_at >= ?"
_DROP = "DELETE FROM open_bursts WHERE slot = ? AND opened_at = ? AND subject = ? AND seq = ?"

SLOT = 30_000
"""Milliseconds. Of each slot's bursts a tombstone stays, and a look that passes 100,000 of them is refused."""
LISTED_FOR = timedelta(days=8)
"""The table's default; no TTL is bound."""
LATE = timedelta(minutes=1)
"""What is listed sooner than so long after its opening is found by the next look, and so long may clocks differ."""
FORGOTTEN = 384
"""Slots that each whole look looks at from their beginning again: asked once a second, all of them within a minute."""


TOGETHER = 64
"""Slots in one question: nearly all of them are empty."""


class OpenBursts:
    """Remembers, for this process, before which moment nothing in a slot is open: every second a whole look would ask
    for 23,040 slots, and pass the tombstones of a week. What another process lists later than `LATE` is found within
    the minute.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._first: dict[int, int] = {}
        self._places: Sequence[tuple[int, BurstKey]] = ()

    def add(self, plans: Sequence[Plan]) -> None:
        self._cluster.ask_each(_ADD, [_row(to_ms(plan.opened_at), plan.burst) for plan in plans])
        for plan in plans:
            self._first.pop(to_ms(plan.opened_at) // SLOT, None)

    def drop(self, plans: Iterable[Plan]) -> None:
        """Wherever they are listed: of two that would have planned a burst, one may have listed another opening."""
        places = {(to_ms(plan.opened_at), plan.burst) for plan in plans}
        places |= {place for place in self._places if place[1] in {burst for _, burst in places}}
        self._cluster.ask_each(_DROP, [_row(*place) for place in places])

    def since(self, moment: datetime) -> Sequence[BurstKey]:
        return [key for _, key in self._look({to_ms(moment): list(self._slots(moment))})]

    def all(self) -> Sequence[BurstKey]:
        now = self._clock.now()  # before the look: of what is listed later nothing is concluded
        forgotten = {slot: self._first.pop(slot) for slot in list(islice(self._first, FORGOTTEN))}
        looks = defaultdict(list)
        for slot in self._slots(now - LISTED_FOR):
            if (first := self._first.get(slot, 0)) < (slot + 1) * SLOT:
                looks[first].append(slot)
        try:
            self._places = self._look(looks)
        except StoreUnavailable:
            # Else a slot that can't be read from its beginning would be asked for it by every look from now on.
            self._first |= forgotten
            raise
        settled = to_ms(now - LATE)
        oldest = {ms // SLOT: ms for ms, _ in reversed(self._places)}
        for slots in looks.values():
            self._first |= {slot: min(oldest.get(slot, (slot + 1) * SLOT), settled) for slot in slots}
        return [key for _, key in self._places]

    def _slots(self, first: datetime) -> range:
        now = self._clock.now()
        return range(to_ms(max(first, now - LISTED_FOR)) // SLOT, to_ms(now + LATE) // SLOT + 1)

    def _look(self, looks: Mapping[int, Sequence[int]]) -> Sequence[tuple[int, BurstKey]]:
        """From each moment on in the slots that are to be looked at from there; oldest first."""
        asks = [(some[n : n + TOGETHER], first) for first, some in looks.items() for n in range(0, len(some), TOGETHER)]
        found = [tuple(row) for rows in self._cluster.ask_each(_LOOK, asks) for row in rows]
        return [(ms, BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in sorted(found)]


def _row(ms: int, burst: BurstKey) -> tuple[int, int, str, int]:
    return ms // SLOT, ms, str(burst.subject), burst.seq
