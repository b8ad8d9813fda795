"""The bursts of all subjects, newest first: hour by hour, the parts of an hour merged, a few rows of each in memory."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice

from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.parts import PARTS, hour_of
from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.clock import Clock
from notifier.ports.inbox import Place

_PAGE = statement("recent_bursts")
AHEAD = timedelta(hours=1)
"""A burst may be stamped a little after our now: by another machine's clock, or behind the one before it."""
LAST = (1 << 63) - 1
"""Behind every time that Cassandra can hold."""

Entry = tuple[int, str, int]
"""Opening, subject and seq: in the order of places."""


class CassandraRecentBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._bursts = CassandraBursts(cluster, clock)

    def since(self, moment: datetime, behind: Place | None, limit: int) -> Sequence[Burst]:
        entries = self._entries(moment, behind, limit)
        found: list[Burst] = []
        while len(found) < limit and (page := list(islice(entries, limit - len(found)))):
            found += self._standing(page)
        return found

    def _standing(self, page: Sequence[Entry]) -> Sequence[Burst]:
        """Those that opened when the entry says so: one that was re-stamped has another entry."""
        places = [Place(from_ms(ms), BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in page]
        bursts = self._bursts.read([place.burst for place in places])
        return [
            bursts[place.burst]
            for place in places
            if place.burst in bursts and bursts[place.burst].opened_at == place.opened_at
        ]

    def _entries(self, moment: datetime, behind: Place | None, limit: int) -> Iterator[Entry]:
        now = self._clock.now()
        first, last = to_ms(max(moment, now - RETENTION)), to_ms(now + AHEAD)
        end = (LAST, "", 0)
        if behind is not None:
            end = to_ms(behind.opened_at), str(behind.burst.subject), behind.burst.seq
        for hour in range(hour_of(min(end[0], last)), hour_of(first) - 1, -1):
            yield from self._hour(hour, end, first, max(1, limit // PARTS))

    def _hour(self, hour: int, end: Entry, first: int, size: int) -> Iterator[Entry]:
        pages = self._cluster.ask_each(_PAGE, [(hour, part, *end, first, size) for part in range(PARTS)])
        parts = [self._part(hour, part, page, first, size) for part, page in enumerate(pages)]
        yield from merge(*parts, reverse=True)

    def _part(self, hour: int, part: int, page: Sequence[Entry], first: int, size: int) -> Iterator[Entry]:
        while page:
            yield from map(tuple, page)
            if len(page) < size:
                return
            page = self._cluster.ask(_PAGE, (hour, part, *page[-1], first, size))
