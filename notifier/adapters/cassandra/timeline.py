"""The timeline: canonical bursts by subject and run, and a member's inbox rows, asked side by side."""

import asyncio
import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, groupby

from notifier.adapters.cassandra.inboxes import LAST, Inboxes
from notifier.adapters.cassandra.parts import run_of
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.statements import statement
from notifier.codec import unpack
from notifier.codec.moments import to_ms
from notifier.domain.block import Row, window_of
from notifier.domain.burst import RETENTION, Burst
from notifier.domain.subject import BurstKey, Member, Subject, UserId
from notifier.ports.clock import Clock
from notifier.ports.timeline import Place

SUBJECTS_AT_ONCE = 64
"""What the newest of these leave over bounds how far back the others are read."""
RUNS_AT_ONCE = 16
AHEAD = timedelta(minutes=1)
"""How far a writer's clock may be before ours."""

_BURSTS = "SELECT blob FROM bursts WHERE subject = ? AND run = ? AND seq IN ?"
_RUNS = statement("runs_before")
_BEFORE = statement("bursts_before")

Found = tuple[int, str, int, bytes]
"""A burst: opened at, subject, seq and blob; compares as its place does."""


class CassandraTimeline:
    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._inboxes = Inboxes(reader=reader)
        self._clock = clock

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return await bursts_of(self._reader, keys)

    async def before(
        self,
        subjects: Collection[Subject],
        place: Place | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        if limit < 1:
            return []
        wanted = _Wanted(place=place, limit=limit, authors=authors, floor=0 if since is None else to_ms(since))
        named, best = sorted({str(subject) for subject in subjects}), list[Found]()
        for begin in range(0, len(named), SUBJECTS_AT_ONCE):
            some = named[begin : begin + SUBJECTS_AT_ONCE]
            best = heapq.nlargest(limit, chain(best, *await asyncio.gather(*(self._of(one, wanted) for one in some))))
            if len(best) == limit:
                wanted = replace(wanted, floor=max(wanted.floor, best[-1][0]))
        return [unpack(Burst, blob) for *_, blob in best]

    async def rows(self, member: Member, place: Place | None, limit: int) -> Sequence[Row]:
        if limit < 1:
            return []
        now = self._clock.now()
        newest, oldest = window_of(now + AHEAD), window_of(now - RETENTION)
        if place is not None:
            newest = min(newest, window_of(place.opened_at))
        return await self._inboxes.rows(member, place, limit, range(newest, oldest - 1, -1))

    async def _of(self, subject: str, wanted: "_Wanted") -> list[Found]:
        """One subject's newest that are wanted, run by run."""
        found: list[Found] = []
        before, full = LAST, True
        while full:
            runs = await self._reader(_RUNS, (subject, before, wanted.by(subject)[0], RUNS_AT_ONCE))
            for stored in runs:
                before = stored.run
                if not await self._of_run(subject, stored.run, wanted, found):
                    return found
            full = len(runs) == RUNS_AT_ONCE
        return found

    async def _of_run(self, subject: str, run: int, wanted: "_Wanted", found: list[Found]) -> bool:
        """Whether older ones are wanted. Within a subject seq and opening have one order: below the floor all are."""
        by, seq, full = wanted.by(subject), LAST, True
        while full:
            page = await self._reader(_BEFORE, (subject, run, seq, by[0], wanted.limit))
            for stored in page:
                if stored.opened_at < wanted.floor or len(found) == wanted.limit:
                    return False
                seq = stored.seq
                if (stored.opened_at, seq) < by and wanted.admits(stored.restricted_to):
                    found.append((stored.opened_at, subject, seq, stored.blob))
            full = len(page) == wanted.limit
        return True


async def bursts_of(reader: Reader, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
    """Those that exist; one question for each subject and run."""
    each = groupby(sorted(set(keys)), key=lambda key: (str(key.subject), run_of(key.seq)))
    asked = [(*run, [key.seq for key in some]) for run, some in each]
    found = [unpack(Burst, row.blob) for rows in await reader.each(_BURSTS, asked) for row in rows]
    return {burst.key: burst for burst in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    place: Place | None
    limit: int
    authors: Collection[str] | None
    floor: int
    """What opened before it is of no use."""

    def by(self, subject: str) -> tuple[int, int]:
        """The time and number that this subject's bursts must be below to be behind the place."""
        if self.place is None:
            return LAST, LAST
        at, there = to_ms(self.place.opened_at), str(self.place.burst.subject)
        if subject == there:
            return at, self.place.burst.seq
        return (at, LAST) if subject < there else (at, 0)

    def admits(self, restricted_to: str | None) -> bool:
        return self.authors is None or not restricted_to or restricted_to in self.authors
