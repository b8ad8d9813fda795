"""The timeline over core.db and the inbox files: keys are read backwards and merged, until it is enough."""

import heapq
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
from notifier.domain.bits import BLOCK_MEMBERS, SHARD_BLOCKS, block_of
from notifier.domain.block import BLOCK_SLOT, Row, window_of
from notifier.domain.burst import Burst
from notifier.domain.subject import BurstKey, Member, Subject, UserId
from notifier.ports.timeline import Place

LAST = (1 << 63) - 1
"""Behind every time and number that SQLite can hold."""

_READ = statement("read_bursts")
_BEFORE = statement("bursts_before")
_ROWS = statement("inbox_rows")
_WINDOW = "SELECT max(inbox_window) FROM inbox WHERE block = ? AND inbox_window <= ?"

Found = tuple[int, str, int, bytes, str]
"""A burst: opened at, subject, seq, blob and whom it is restricted to; compares as its place does."""
Stored = tuple[int, str, int, str, int, bytes | None]
"""An inbox row: opened at, subject, seq, tier, slot, members; compares as its place does."""


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

    async def rows(self, member: Member, place: Place | None, limit: int) -> Sequence[Row]:
        return await self._reader(self._rows, member, place, limit)

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

    def _rows(self, member: Member, place: Place | None, limit: int) -> Sequence[Row]:
        db = self._inboxes[block_of(member) // SHARD_BLOCKS % len(self._inboxes)]
        with db.read() as c:
            return [_row(stored) for stored in islice(_reaching(c, member, place), limit)]


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


def _reaching(c: sqlite3.Connection, member: Member, place: Place | None) -> Iterator[Stored]:
    """Jumps from inbox window to inbox window, those without rows of the block left out."""
    block, slot = divmod(member, BLOCK_MEMBERS)
    behind = _key(place)
    window = LAST if place is None else window_of(place.opened_at)
    while (window := c.execute(_WINDOW, (block, window)).fetchone()[0]) is not None:
        own = c.execute(_ROWS, (block, window, slot, *behind))
        shared = _with_bit(c.execute(_ROWS, (block, window, BLOCK_SLOT, *behind)), slot)
        yield from heapq.merge(own, shared, reverse=True)
        window -= 1


def _with_bit(stored: Iterator[Stored], slot: int) -> Iterator[Stored]:
    byte, bit = slot // 8, 1 << slot % 8
    return (row for row in stored if row[5] is not None and row[5][byte] & bit)


def _key(place: Place | None) -> tuple[int, str, int]:
    return (LAST, "", 0) if place is None else (to_ms(place.opened_at), str(place.burst.subject), place.burst.seq)


def _row(stored: Stored) -> Row:
    opened_at, subject, seq, tier, slot, members = stored
    return Row(
        burst=BurstKey(Subject.parse(subject), seq),
        opened_at=from_ms(opened_at),
        tier=Tier(tier),
        slot=slot,
        members=members,
    )
