"""Reads bursts (core.db) and inbox rows (inbox files), for inbox pages."""

import heapq
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.adapters.sqlite.async_queries import SqliteReader
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import keys_as_json, load_statement
from notifier.codec import unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.inbox_rows import InboxRow, range_of, window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.ports.inbox import InboxPosition

MAX_INT64 = (1 << 63) - 1
"""Greater than every stored time and number: the largest integer in SQLite."""

_SELECT_BURSTS = load_statement("read_bursts_by_key")
_SELECT_BURSTS_BEFORE = load_statement("read_bursts_before")
_SELECT_ROWS = load_statement("read_inbox_rows_of_one_subject")
_SELECT_NEWEST_ROW_TIMES = load_statement("read_newest_inbox_row_times")
_SELECT_NEXT_WINDOW = "SELECT max(inbox_window) FROM inbox WHERE member_range = ? AND inbox_window <= ?"

StoredBurst = tuple[int, str, int, bytes, str]
"""Opening time, subject, seq, blob and restriction of a burst, compared in this order.

The restriction is the protected author, or empty.
"""
StoredInboxRow = tuple[int, str, int, str, bytes]
"""Opening time, subject, seq, tier and members of an inbox row, compared in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowQuery:
    """Query for a member's rows of some subjects, after a position."""

    member: Member
    subjects_json: str
    position: InboxPosition | None


class SqliteTimeline:
    def __init__(self, core: Database, inboxes: Sequence[Database], reader: SqliteReader | None = None) -> None:
        self._core = core
        self._inboxes = inboxes
        self._reader = reader or SqliteReader()

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return await self._reader(self._bursts, keys)

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        return await self._reader(self._older_than, subjects, position, limit, authors, since)

    async def rows(
        self, member: Member, subjects: Collection[Subject], after: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        return await self._reader(self._rows, member, subjects, after, limit)

    def _bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        with self._core.read() as c:
            blobs = c.execute(_SELECT_BURSTS, (keys_as_json(keys),)).fetchall()
        return {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}

    def _older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None,
        since: datetime | None,
    ) -> Sequence[Burst]:
        visible_restrictions = None if authors is None else {"", *authors}
        opened_since = 0 if since is None else to_ms(since)
        with self._core.read() as c:
            newest_bursts = _newest_bursts(
                c,
                {str(subject) for subject in subjects},
                position,
                limit,
                visible_restrictions=visible_restrictions,
                opened_since=opened_since,
            )
        return [unpack(Burst, blob) for *_, blob, _ in newest_bursts]

    def _rows(
        self, member: Member, subjects: Collection[Subject], position: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        rows = list[InboxRow]()
        subjects_json = json.dumps([*dict.fromkeys(map(str, subjects))])
        query = _RowQuery(member=member, subjects_json=subjects_json, position=position)
        with self._inboxes[shard_of(member) % len(self._inboxes)].read() as c:
            for window in _windows(c, range_of(member), position):
                if len(rows) >= limit:
                    break
                rows += _newest_rows(c, query, window, limit - len(rows))
        return rows


def _newest_bursts(
    c: sqlite3.Connection,
    subjects: Collection[str],
    position: InboxPosition | None,
    limit: int,
    *,
    visible_restrictions: Collection[str] | None,
    opened_since: int,
) -> Sequence[StoredBurst]:
    """Return the newest bursts after the position, of all subjects together.

    Once the heap `best` is full, its oldest burst limits how far back the next subjects are read.
    """
    best: list[StoredBurst] = []
    for subject in subjects:
        oldest_useful = max(opened_since, best[0][0]) if len(best) == limit and best else opened_since
        for burst in c.execute(_SELECT_BURSTS_BEFORE, (subject, *_upper_bound(subject, position), oldest_useful)):
            if visible_restrictions is not None and burst[-1] not in visible_restrictions:
                continue
            if len(best) < limit:
                heapq.heappush(best, burst)
            elif burst > best[0]:
                heapq.heapreplace(best, burst)
            else:
                break
    return sorted(best, reverse=True)


def _upper_bound(subject: str, position: InboxPosition | None) -> tuple[int, int]:
    """Return the exclusive upper bound, an opening time and a burst number, of the subject's bursts after the position.

    Bursts are listed newest first, and those of the same time by descending subject. So of the bursts that opened at
    the position's time, all of a lower subject come after the position, and none of a higher subject.
    """
    if position is None:
        return MAX_INT64, MAX_INT64
    at, last_subject = to_ms(position.opened_at), str(position.burst.subject)
    if subject == last_subject:
        return at, position.burst.seq
    return (at, MAX_INT64) if subject < last_subject else (at, 0)


def _windows(c: sqlite3.Connection, member_range: int, position: InboxPosition | None) -> Iterator[int]:
    """Yield the inbox windows with rows of the range, newest first."""
    window = MAX_INT64 if position is None else window_of(position.opened_at)
    while (window := c.execute(_SELECT_NEXT_WINDOW, (member_range, window)).fetchone()[0]) is not None:
        yield window
        window -= 1


def _newest_rows(c: sqlite3.Connection, query: _RowQuery, window: int, limit: int) -> Iterator[InboxRow]:
    """Return the newest rows of an inbox window that reach the member, over all subjects.

    Subjects are read in the order of their newest row. Once `best` is full, the first subject whose newest row is older
    than all rows in `best` ends the loop. A statement for each of thousands of subjects would take 0.2 s.
    """
    best: list[StoredInboxRow] = []
    position, key = query.position, (range_of(query.member), window)
    latest = MAX_INT64 if position is None else to_ms(position.opened_at)
    for newest_time, subject in c.execute(_SELECT_NEWEST_ROW_TIMES, (query.subjects_json, *key, latest)).fetchall():
        if newest_time is None or (len(best) == limit and newest_time < best[0][0]):
            break
        for stored in c.execute(_SELECT_ROWS, (*key, subject, *_upper_bound(subject, position))):
            if len(best) == limit and stored < best[0]:
                break
            if not _row(stored).contains(query.member):
                continue
            if len(best) < limit:
                heapq.heappush(best, stored)
            else:
                heapq.heapreplace(best, stored)
    return map(_row, sorted(best, reverse=True))


def _row(stored: StoredInboxRow) -> InboxRow:
    opened_at, subject, seq, tier, members = stored
    key = BurstKey(Subject.parse(subject), seq)
    return InboxRow(burst=key, opened_at=from_ms(opened_at), tier=Tier(tier), members=members)
