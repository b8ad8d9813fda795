"""The timeline over core.db and the inbox files: keys are read backwards, subject by subject, until it is enough."""

import heapq
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.adapters.sqlite.async_reader import SqliteReader
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import statement, wanted
from notifier.codec import unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.inbox_rows import InboxRow, range_of, window_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.ports.inbox import InboxPosition

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Whose rows, of which subjects, and behind which place."""

    member: Member
    subjects: str
    """As JSON."""
    place: InboxPosition | None


class SqliteTimeline:
    def __init__(self, core: Database, inboxes: Sequence[Database], reader: SqliteReader | None = None) -> None:
        self._core = core
        self._inboxes = inboxes
        self._reader = reader or SqliteReader()

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return await self._reader(self._bursts, keys)

    async def before(
        self,
        subjects: Collection[Subject],
        place: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        return await self._reader(self._before, subjects, place, limit, authors, since)

    async def rows(
        self, member: Member, subjects: Collection[Subject], place: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        return await self._reader(self._rows, member, subjects, place, limit)

    def _bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        with self._core.read() as c:
            blobs = c.execute(_READ, (wanted(keys),)).fetchall()
        return {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}

    def _before(
        self,
        subjects: Collection[Subject],
        place: InboxPosition | None,
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
        self, member: Member, subjects: Collection[Subject], place: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        names, found = json.dumps([*dict.fromkeys(map(str, subjects))]), list[InboxRow]()
        wanted = _Wanted(member=member, subjects=names, place=place)
        with self._inboxes[shard_of(member) % len(self._inboxes)].read() as c:
            for window in _windows(c, range_of(member), place):
                if len(found) >= limit:
                    break
                found += _newest_rows(c, wanted, window, limit - len(found))
        return found


def _newest(
    c: sqlite3.Connection,
    subjects: Collection[str],
    place: InboxPosition | None,
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


def _limit_of(subject: str, place: InboxPosition | None) -> tuple[int, int]:
    """The time and number that this subject's bursts must be below to be behind the place."""
    if place is None:
        return LAST, LAST
    at, there = to_ms(place.opened_at), str(place.burst.subject)
    if subject == there:
        return at, place.burst.seq
    return (at, LAST) if subject < there else (at, 0)


def _windows(c: sqlite3.Connection, member_range: int, place: InboxPosition | None) -> Iterator[int]:
    """Jump from inbox window to inbox window, newest first. Those without rows of the range are left out."""
    window = LAST if place is None else window_of(place.opened_at)
    while (window := c.execute(_WINDOW, (member_range, window)).fetchone()[0]) is not None:
        yield window
        window -= 1


def _newest_rows(c: sqlite3.Connection, wanted: _Wanted, window: int, limit: int) -> Iterator[InboxRow]:
    """Return an inbox window's newest rows of all subjects that reach the member.

    One subject is read after the other, down to the last of the best so far: a statement for each of thousands at once
    would take 0.2 s.
    """
    best: list[Stored] = []
    place, here = wanted.place, (range_of(wanted.member), window)
    until = LAST if place is None else to_ms(place.opened_at)
    for newest, subject in c.execute(_SUBJECTS, (wanted.subjects, *here, until)).fetchall():
        if newest is None or (len(best) == limit and newest < best[0][0]):
            break
        for stored in c.execute(_ROWS, (*here, subject, *_limit_of(subject, place))):
            if len(best) == limit and stored < best[0]:
                break
            if not _row(stored).reaches(wanted.member):
                continue
            if len(best) < limit:
                heapq.heappush(best, stored)
            else:
                heapq.heapreplace(best, stored)
    return map(_row, sorted(best, reverse=True))


def _row(stored: Stored) -> InboxRow:
    opened_at, subject, seq, tier, members = stored
    key = BurstKey(Subject.parse(subject), seq)
    return InboxRow(burst=key, opened_at=from_ms(opened_at), tier=Tier(tier), members=members)
