"""Writes inbox rows, and reads the rows of one member."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.bulk.encoding import RowMessage, divide_into_messages
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import seconds_until
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, range_of
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import expires_at
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock


class CassandraInbox:
    def __init__(self, cluster: Cluster, clock: Clock, bulk: BulkWriter | None = None) -> None:
        self._clock = clock
        self._bulk = bulk or BulkWriter(cluster)

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        # Readers may see some of the rows before the others are written, which is harmless. Each row is written as a
        # whole, and only points to a burst. What a user sees does not depend on the rows.
        if unexpired := [group for group in rows if group.row_count and self._ttl(group) > 0]:
            self._bulk.send(self._messages(unexpired, on_progress))

    def delete_expired(self, now: datetime, limit: int) -> int:
        """Do nothing: rows and audience snapshots expire by TTL."""
        return 0

    def _messages(self, rows: Sequence[InboxRows], on_progress: Callable[[], None]) -> Iterator[RowMessage]:
        query_id = self._bulk.query_id()
        for group in rows:
            on_progress()
            yield from divide_into_messages(group, max(1, self._ttl(group)), query_id)

    def _ttl(self, rows: InboxRows) -> int:
        """Return the remaining lifetime in whole seconds, below 1 if the burst has expired.

        Don't write the rows of an expired burst: with a TTL of 0 they would never expire.
        """
        return seconds_until(expires_at(rows.opened_at), self._clock.now())


# Inbox rows of one member, newest first

SUBJECTS_PER_QUERY = 16
"""Subjects in one query. Some operators set a guardrail that forbids more than 20 values in an IN clause."""
MAX_ROWS_PER_QUERY = 512
"""Row limit of a query: at most 300 kB. If several subjects reach the limit together, each subject is queried alone."""
MIN_FIRST_PAGE_ROWS = 64
"""Lowest row limit of the first query of a single subject. Most subjects have fewer rows in an inbox window."""
MAX_INT64 = (1 << 63) - 1
"""Greater than every opening, burst number and run."""

_SELECT_ROWS = load_statement("read_inbox_rows_of_several_subjects")
_SELECT_ROWS_OF_SUBJECT = load_statement("read_inbox_rows_of_one_subject")
_SELECT_FILLED_WINDOWS = (
    "SELECT inbox_window FROM inbox WHERE member_range = ? AND inbox_window IN ? PER PARTITION LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRowQuery:
    """Rows to read: at most `limit` rows of these subjects that reach the member, newest first, after the position."""

    member: Member
    subjects: Sequence[str]
    position: InboxPosition | None
    limit: int

    @property
    def latest_opening(self) -> int:
        return MAX_INT64 if self.position is None else to_ms(self.position.opened_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRowReader:
    async_queries: AsyncQueries

    async def rows(self, row_query: InboxRowQuery, windows: range) -> list[InboxRow]:
        """Return the rows of these inbox windows. Windows and rows are ordered newest first.

        If the first window doesn't have enough rows, read further windows that have any, in groups of growing size.
        """
        rows = await self._read_windows(row_query, windows[:1])
        if len(rows) < row_query.limit and len(windows) > 1:
            for group in _growing_groups(await self._filled_windows(range_of(row_query.member), windows[1:])):
                rows += await self._read_windows(row_query, group)
                if len(rows) >= row_query.limit:
                    break
        return rows[: row_query.limit]

    async def _filled_windows(self, member_range: int, windows: range) -> list[int]:
        rows = await self.async_queries(_SELECT_FILLED_WINDOWS, (member_range, list(windows)))
        return sorted((row.inbox_window for row in rows), reverse=True)

    async def _read_windows(self, row_query: InboxRowQuery, windows: Sequence[int]) -> list[InboxRow]:
        pages = await asyncio.gather(*(self._read_window(row_query, window) for window in windows))
        return [row for rows in pages for row in rows]

    async def _read_window(self, row_query: InboxRowQuery, window: int) -> list[InboxRow]:
        groups = [
            row_query.subjects[start : start + SUBJECTS_PER_QUERY]
            for start in range(0, len(row_query.subjects), SUBJECTS_PER_QUERY)
        ]
        queried_together = [group for group in groups if len(group) > 1]
        queried_alone = [subject for group in groups if len(group) == 1 for subject in group]
        result = list[InboxRow]()
        queries = [(group, row_query.latest_opening, MAX_ROWS_PER_QUERY) for group in queried_together]
        results = await self._query(_SELECT_ROWS, row_query, window, queries)
        for group, rows in zip(queried_together, results, strict=True):
            if len(rows) < MAX_ROWS_PER_QUERY:
                result += _reaching(row_query, rows)
            else:
                queried_alone += group
        result += await self._read_by_subject(
            row_query,
            window,
            [_SubjectRowCursor(subject, (row_query.latest_opening, MAX_INT64)) for subject in queried_alone],
        )
        return sorted(result, key=_position, reverse=True)[: row_query.limit]

    async def _read_by_subject(
        self, row_query: InboxRowQuery, window: int, cursors: Sequence["_SubjectRowCursor"]
    ) -> list[InboxRow]:
        """Read each subject alone, page by page, until it has enough rows that reach the member, or no more rows."""
        all_cursors = cursors
        row_limit = min(MAX_ROWS_PER_QUERY, max(MIN_FIRST_PAGE_ROWS, len(TIERS) * row_query.limit))
        while cursors:
            queries = [(cursor.subject, *cursor.read_from, row_limit) for cursor in cursors]
            results = await self._query(_SELECT_ROWS_OF_SUBJECT, row_query, window, queries)
            for cursor, rows in zip(cursors, results, strict=True):
                cursor.take_page(rows, row_limit, _reaching(row_query, rows))
            cursors = [cursor for cursor in cursors if cursor.has_more and len(cursor.rows) < row_query.limit]
            row_limit = MAX_ROWS_PER_QUERY
        return [row for cursor in all_cursors for row in cursor.rows.values()]

    async def _query(
        self, statement: str, row_query: InboxRowQuery, window: int, queries: Sequence[tuple[object, ...]]
    ) -> list[list[InboxRow]]:
        partition = range_of(row_query.member), window
        # Send all queries in one call, because the queries in flight are limited per call. A member who follows
        # thousands of subjects must not use up the limit of all calls.
        results = await self.async_queries.query_each(statement, [(*partition, *query) for query in queries])
        return [[inbox_row_of(row) for row in rows] for rows in results]


@dataclass(slots=True)
class _SubjectRowCursor:
    """Read position within one subject's rows of an inbox window."""

    subject: str
    read_from: tuple[int, int]
    """Opening and number of the burst with which the next page starts."""
    has_more: bool = True
    rows: dict[tuple[BurstKey, Tier], InboxRow] = field(default_factory=dict)

    def take_page(self, page: Sequence[InboxRow], row_limit: int, reaching_rows: Sequence[InboxRow]) -> None:
        self.rows |= {(row.burst, row.tier): row for row in reaching_rows}
        self.has_more = len(page) == row_limit
        if self.has_more:
            # A burst may have a row for each tier, and a page may end between two of them: read the last burst again.
            self.read_from = to_ms(page[-1].opened_at), page[-1].burst.seq


def _reaching(row_query: InboxRowQuery, rows: Sequence[InboxRow]) -> list[InboxRow]:
    """Return the rows that reach the member and come after the position."""
    older = rows if row_query.position is None else [row for row in rows if _position(row) < row_query.position]
    return [row for row in older if row.contains(row_query.member)]


def _growing_groups(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    start, size = 0, 2
    while start < len(windows):
        yield windows[start : start + size]
        start, size = start + size, 2 * size


def _position(row: InboxRow) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)


def inbox_row_of(row: Any) -> InboxRow:
    return InboxRow(
        burst=BurstKey(Subject.parse(row.subject), row.seq),
        opened_at=from_ms(row.opened_at),
        tier=Tier(row.tier),
        members=row.members,
    )
