"""The timeline over core.db and the inbox files: keys are read backwards and merged, until it is enough."""

import heapq
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.reader import Reader
from notifier.adapters.sqlite.statements import statement, wanted
from notifier.codec import unpack
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience import Tier
from notifier.domain.bits import shard_of
from notifier.domain.burst import Burst
from notifier.domain.inbox_rows import InboxRow, range_of, window_of
from notifier.domain.subject import BurstKey, Member, Subject, UserId
from notifier.ports.timeline import Place

LAST = (1 << 63) - 1
"""Behind every time and number that SQLite can hold."""

_READ = statement("read_bursts")
_BEFORE = statement("bursts_before")
_ROWS = statement("inbox_rows")
_SUBJECTS = statement("inbox_subjects")
_WINDOW = "SELECT max(inbox_window) FROM inbox WHERE member_range = ? AND inbox_window <= ?"

Found = tuple[int, str, int, bytes, str]
"""A burst: opened at, subject, seq, blob and whom it is restricted to; compares as its place does."""
Stored = tuple[int, str, int, str, bytes]
"""An inbox row: opened at, subject, seq, tier, members; compares as its place does."""


class SqliteTimeline:
    def __init__(self, core: Database, inboxes: Sequence[Database], reader: Reader | None = None) -> None:
        self._core = core
        self._inboxes = inboxes
        self._reader = reader or Reader()

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return await self._reader(self._bursts, keys)

    async def before(
        self,
        subjects: Collection[Subject],
        place: Place | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        return await self._reader(self._before, subjects, place, limit, authors, since)

    async def rows(
        self, member: Member, subjects: Collection[Subject], place: Place | None, limit: int
    ) -> Sequence[InboxRow]:
        return await self._reader(self._rows, member, subjects, place, limit)

    def _bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        with self._core.read() as c:
            blobs = c.execute(_READ, (wanted(keys),)).fetchall()
        return {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}

    def _before(
        self,
        subjects: Collection[Subject],
        place: Place | None,
        limit: int,
        authors: Collection[UserId] | None,
        since: datetime | None,
    ) -> Sequence[Burst]:
        admitted = None if authors is None else {"", *authors}
        floor = 0 if since is None else to_ms(since)
        with self._core.read() as c:
            newest = _newest(c, {str(subject) for subject in subjects}, place, limit, admitted=admitted, least=floor)
        return [unpack(Burst, blob) for *_, blob, _ in newest]

    def _rows(
        self, member: Member, subjects: Collection[Subject], place: Place | None, limit: int
    ) -> Sequence[InboxRow]:
        names = [*dict.fromkeys(map(str, subjects))]
        with self._inboxes[shard_of(member) % len(self._inboxes)].read() as c:
            rows = (_row(stored) for stored in _stored(c, range_of(member), names, place))
            return list(islice((row for row in rows if row.reaches(member)), limit))


def _newest(
    c: sqlite3.Connection,
    subjects: Collection[str],
    place: Place | None,
    limit: int,
    *,
    admitted: Collection[str] | None,
    least: int,
) -> Sequence[Found]:
    """The best of all subjects so far, whose last place is the floor below which no other subject is read."""
    best: list[Found] = []
    for subject in subjects:
        floor = max(least, best[0][0]) if len(best) == limit and best else least
        for found in c.execute(_BEFORE, (subject, *_limit_of(subject, place), floor)):
            if admitted is not None and found[-1] not in admitted:
                continue
            if len(best) < limit:
                heapq.heappush(best, found)
            elif found > best[0]:
                heapq.heapreplace(best, found)
            else:
                break
    return sorted(best, reverse=True)


def _limit_of(subject: str, place: Place | None) -> tuple[int, int]:
    """The time and number that this subject's bursts must be below to be behind the place."""
    if place is None:
        return LAST, LAST
    at, there = to_ms(place.opened_at), str(place.burst.subject)
    if subject == there:
        return at, place.burst.seq
    return (at, LAST) if subject < there else (at, 0)


def _stored(c: sqlite3.Connection, member_range: int, subjects: Sequence[str], place: Place | None) -> Iterator[Stored]:
    """Rows of these subjects, newest first. Jumps from inbox window to inbox window, those without rows left out."""
    wanted, window = json.dumps(subjects), LAST if place is None else window_of(place.opened_at)
    while (window := c.execute(_WINDOW, (member_range, window)).fetchone()[0]) is not None:
        here = (member_range, window)
        found = [subject for (subject,) in c.execute(_SUBJECTS, (wanted, *here))]
        each = [c.execute(_ROWS, (*here, subject, *_limit_of(subject, place))) for subject in found]
        yield from heapq.merge(*each, reverse=True)
        window -= 1


def _row(stored: Stored) -> InboxRow:
    opened_at, subject, seq, tier, members = stored
    key = BurstKey(Subject.parse(subject), seq)
    return InboxRow(burst=key, opened_at=from_ms(opened_at), tier=Tier(tier), members=members)
