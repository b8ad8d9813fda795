"""Writes inbox rows, and reads inbox rows and the newest bursts of many subjects."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.bulk.encoding import RowMessage, messages
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.batching import batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, range_of
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import expires_at
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition


class CassandraInbox:
    def __init__(self, cluster: Cluster, clock: Clock, bulk: BulkWriter | None = None) -> None:
        self._clock = clock
        self._bulk = bulk or BulkWriter(cluster)

    def write(self, rows: Sequence[InboxRows], on_progress: Callable[[], None] = lambda: None) -> None:
        # A partly written slice is harmless to readers: a row only says where to look, and each row is a mutation by
        # itself.
        if unexpired := [group for group in rows if group.row_count and self._ttl(group) > 0]:
            self._bulk.send(self._messages(unexpired, on_progress))

    def delete_expired(self, now: datetime, limit: int) -> int:
        """Do nothing: rows and audience snapshots expire by TTL."""
        return 0

    def _messages(self, rows: Sequence[InboxRows], on_progress: Callable[[], None]) -> Iterator[RowMessage]:
        query_id = self._bulk.query_id()
        for group in rows:
            on_progress()
            yield from messages(group, max(1, self._ttl(group)), query_id)

    def _ttl(self, rows: InboxRows) -> int:
        """Return the remaining lifetime in whole seconds, below 1 if the burst has expired.

        The rows of an expired burst are not written: Cassandra takes a TTL of 0 for "never expires".
        """
        return seconds_until(expires_at(rows.opened_at), self._clock.now())


# Inbox rows of one member, newest first: rows of the followed subjects, one inbox window after another.

SUBJECTS_PER_QUERY = 16
"""Subjects per query. Some operators set a guardrail that forbids more than 20."""
MAX_ROWS_PER_QUERY = 512
"""Maximum rows per query, at most 300 kB. If there are more, each subject is queried alone."""
MIN_FIRST_PAGE_ROWS = 64
"""Minimum row limit of the first query of a single subject. Most subjects have fewer rows in an inbox window."""
MAX_INT64 = (1 << 63) - 1
"""Greater than every time and number that Cassandra can store."""

_SELECT_ROWS = load_statement("read_inbox_rows")
_SELECT_ROWS_OF_SUBJECT = load_statement("read_subject_rows")
_SELECT_FILLED_WINDOWS = (
    "SELECT inbox_window FROM inbox WHERE member_range = ? AND inbox_window IN ? PER PARTITION LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRowQuery:
    """The member whose rows are read, the subjects, the position and the limit."""

    member: Member
    subjects: Sequence[str]
    position: InboxPosition | None
    limit: int

    @property
    def until(self) -> int:
        """Return the latest opening of rows after the position in page order."""
        return MAX_INT64 if self.position is None else to_ms(self.position.opened_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRowReader:
    async_queries: AsyncQueries

    async def rows(self, wanted: InboxRowQuery, windows: range) -> list[InboxRow]:
        """Return the rows of these inbox windows, which are given newest first.

        The first window nearly always has enough rows. Other windows are queried concurrently, in growing groups and
        without the empty ones.
        """
        rows = await self._read_windows(wanted, windows[:1])
        if len(rows) < wanted.limit and len(windows) > 1:
            for group in _growing_groups(await self._filled_windows(range_of(wanted.member), windows[1:])):
                rows += await self._read_windows(wanted, group)
                if len(rows) >= wanted.limit:
                    break
        return rows[: wanted.limit]

    async def _filled_windows(self, member_range: int, windows: range) -> list[int]:
        rows = await self.async_queries(_SELECT_FILLED_WINDOWS, (member_range, list(windows)))
        return sorted((row.inbox_window for row in rows), reverse=True)

    async def _read_windows(self, wanted: InboxRowQuery, windows: Sequence[int]) -> list[InboxRow]:
        pages = await asyncio.gather(*(self._read_window(wanted, window) for window in windows))
        return [row for rows in pages for row in rows]

    async def _read_window(self, wanted: InboxRowQuery, window: int) -> list[InboxRow]:
        groups = [
            wanted.subjects[start : start + SUBJECTS_PER_QUERY]
            for start in range(0, len(wanted.subjects), SUBJECTS_PER_QUERY)
        ]
        queried_together = [group for group in groups if len(group) > 1]
        queried_alone = [subject for group in groups if len(group) == 1 for subject in group]
        result = list[InboxRow]()
        queries = [(group, wanted.until, MAX_ROWS_PER_QUERY) for group in queried_together]
        results = await self._query(_SELECT_ROWS, wanted, window, queries)
        for group, rows in zip(queried_together, results, strict=True):
            if len(rows) < MAX_ROWS_PER_QUERY:
                result += _reaching(wanted, rows)
            else:
                queried_alone += group
        result += await self._read_by_subject(
            wanted, window, [_SubjectRowCursor(subject, (wanted.until, MAX_INT64)) for subject in queried_alone]
        )
        return sorted(result, key=_position, reverse=True)[: wanted.limit]

    async def _read_by_subject(
        self, wanted: InboxRowQuery, window: int, cursors: Sequence["_SubjectRowCursor"]
    ) -> list[InboxRow]:
        """Read subjects separately, page by page, until each has enough rows that reach the member, or no more rows."""
        all_cursors, size = cursors, min(MAX_ROWS_PER_QUERY, max(MIN_FIRST_PAGE_ROWS, len(TIERS) * wanted.limit))
        while cursors:
            queries = [(cursor.name, *cursor.read_from, size) for cursor in cursors]
            results = await self._query(_SELECT_ROWS_OF_SUBJECT, wanted, window, queries)
            for cursor, rows in zip(cursors, results, strict=True):
                cursor.take(rows, size, _reaching(wanted, rows))
            cursors = [cursor for cursor in cursors if cursor.has_more and len(cursor.rows) < wanted.limit]
            size = MAX_ROWS_PER_QUERY
        return [row for cursor in all_cursors for row in cursor.rows.values()]

    async def _query(
        self, statement: str, wanted: InboxRowQuery, window: int, queries: Sequence[tuple[object, ...]]
    ) -> list[list[InboxRow]]:
        partition = range_of(wanted.member), window
        # One call of the async_queries, because it limits the queries in flight per call. A member who follows
        # thousands of subjects must not use up the limit of all calls.
        results = await self.async_queries.query_each(statement, [(*partition, *query) for query in queries])
        return [[row_of(row) for row in rows] for rows in results]


@dataclass(slots=True)
class _SubjectRowCursor:
    """Read position within one subject's rows of an inbox window."""

    name: str
    read_from: tuple[int, int]
    """Opening and number of the last burst that was read."""
    has_more: bool = True
    """Whether there may be more rows."""
    rows: dict[tuple[BurstKey, Tier], InboxRow] = field(default_factory=dict)

    def take(self, rows: Sequence[InboxRow], size: int, reaching: Sequence[InboxRow]) -> None:
        self.rows |= {(row.burst, row.tier): row for row in reaching}
        self.has_more = len(rows) == size
        if self.has_more:
            # A burst has a row for each tier, and a page may end between two of them: read the last burst again.
            self.read_from = to_ms(rows[-1].opened_at), rows[-1].burst.seq


def _reaching(wanted: InboxRowQuery, rows: Sequence[InboxRow]) -> list[InboxRow]:
    """Return the rows after the position that reach the member."""
    older = rows if wanted.position is None else [row for row in rows if _position(row) < wanted.position]
    return [row for row in older if row.contains(wanted.member)]


def _growing_groups(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    start, size = 0, 2
    while start < len(windows):
        yield windows[start : start + size]
        start, size = start + size, 2 * size


def _position(row: InboxRow) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)


def row_of(row: Any) -> InboxRow:
    return InboxRow(
        burst=BurstKey(Subject.parse(row.subject), row.seq),
        opened_at=from_ms(row.opened_at),
        tier=Tier(row.tier),
        members=row.members,
    )


# The newest bursts of many subjects: first a few bursts of each subject, then more of subjects that may have newer ones
# than those found.

SUBJECTS_PER_BATCH = 128
"""Subjects read together. The bursts found so far limit how far back the next subjects are read."""
RUNS_PER_QUERY = 16
FIRST_PAGE_BURSTS = 4
"""Bursts of each subject in the first query. Most subjects have no burst on the page."""

_SELECT_RUNS = load_statement("read_runs_before")
_SELECT_BURSTS = load_statement("read_bursts_before")

NewestRow = tuple[int, str, int, bytes]
"""Opening, subject, seq and blob of a burst; sorts as its position does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstQuery:
    position: InboxPosition | None
    limit: int
    authors: Collection[str] | None
    floor: int
    """Bursts that opened earlier are ignored."""

    @property
    def opened_by(self) -> int:
        """Return the latest opening of bursts after the position in page order."""
        return MAX_INT64 if self.position is None else to_ms(self.position.opened_at)

    def is_after(self, opened_at: int, subject: str, seq: int) -> bool:
        if self.position is None:
            return True
        burst = self.position.burst
        return (opened_at, subject, seq) < (to_ms(self.position.opened_at), str(burst.subject), burst.seq)

    def admits(self, restricted_to: str | None) -> bool:
        return self.authors is None or not restricted_to or restricted_to in self.authors


@dataclass(slots=True)
class _NewestCursor:
    """Read position within one subject. In a subject, bursts with a higher number open later."""

    subject: str
    runs: deque[int] = field(default_factory=deque)
    """Runs that are left to read, newest first. Of the first run only numbers below `below` are left."""
    below: int = MAX_INT64
    last_run: int = MAX_INT64
    """Oldest run in the list of runs so far. Older runs were not listed yet."""
    has_more_runs: bool = True
    """Whether there may be runs older than `last_run`."""
    reached: int = MAX_INT64
    """Opening of the last burst that was read."""
    count: int = 0
    """Number of bursts found so far."""
    is_ended: bool = False

    def take_runs(self, runs: Sequence[int]) -> None:
        self.runs.extend(runs)
        self.last_run = runs[-1] if runs else self.last_run
        self.has_more_runs = len(runs) == RUNS_PER_QUERY
        self.is_ended = not self.runs

    def end_run(self) -> None:
        self.runs.popleft()
        self.below = MAX_INT64
        self.is_ended = not (self.runs or self.has_more_runs)


class NewestBursts:
    """One backward scan from a position over any number of subjects."""

    def __init__(self, async_queries: AsyncQueries, wanted: BurstQuery) -> None:
        self._async_queries = async_queries
        self._wanted = wanted
        self._floor = wanted.floor
        self._best: list[NewestRow] = []

    async def of(self, subjects: Collection[Subject]) -> Sequence[NewestRow]:
        """Return the newest bursts, up to the limit and newest first."""
        for batch in batches(sorted({str(subject) for subject in subjects}), SUBJECTS_PER_BATCH):
            await self._walk([_NewestCursor(subject) for subject in batch])
        return self._best

    async def _walk(self, cursors: Sequence[_NewestCursor]) -> None:
        # Once the page is full, most subjects have no burst that is new enough: one burst of each shows that.
        size = min(FIRST_PAGE_BURSTS if len(self._best) < self._wanted.limit else 1, self._wanted.limit)
        while cursors:
            await self._find_runs([cursor for cursor in cursors if not cursor.runs])
            bursts = await self._read([cursor for cursor in cursors if not cursor.is_ended], size)
            self._best = heapq.nlargest(self._wanted.limit, [*self._best, *bursts])
            if len(self._best) == self._wanted.limit:
                self._floor = max(self._floor, self._best[-1][0])
            cursors = [cursor for cursor in cursors if not cursor.is_ended and cursor.reached >= self._floor]
            size = self._wanted.limit

    async def _find_runs(self, cursors: Iterable[_NewestCursor]) -> None:
        queries = [
            (run, batch)
            for run, group in groupby(sorted(cursors, key=attrgetter("last_run")), attrgetter("last_run"))
            for batch in batches(group, SUBJECTS_PER_QUERY)
        ]
        opened_by = self._wanted.opened_by
        results = await self._async_queries.query_each(
            _SELECT_RUNS, [(_names(batch), run, opened_by, RUNS_PER_QUERY) for run, batch in queries]
        )
        for (_, batch), rows in zip(queries, results, strict=True):
            runs = _by_subject(rows)
            for cursor in batch:
                cursor.take_runs([row.run for row in runs.get(cursor.subject, ())])

    async def _read(self, cursors: Iterable[_NewestCursor], size: int) -> Sequence[NewestRow]:
        def run_and_limit(cursor: _NewestCursor) -> tuple[int, int]:
            return cursor.runs[0], cursor.below

        queries = [
            (run, below, batch)
            for (run, below), group in groupby(sorted(cursors, key=run_and_limit), run_and_limit)
            for batch in batches(group, SUBJECTS_PER_QUERY)
        ]
        opened_by = self._wanted.opened_by
        results = await self._async_queries.query_each(
            _SELECT_BURSTS, [(_names(batch), run, below, opened_by, size) for run, below, batch in queries]
        )
        bursts: list[NewestRow] = []
        for (*_, batch), rows in zip(queries, results, strict=True):
            pages = _by_subject(rows)
            for cursor in batch:
                bursts += self._take(cursor, pages.get(cursor.subject, ()), size)
        return bursts

    def _take(self, cursor: _NewestCursor, page: Sequence[Any], size: int) -> Sequence[NewestRow]:
        """Return the wanted bursts of a page, and move the cursor past the page."""
        bursts: list[NewestRow] = []
        for row in page:
            if row.opened_at < self._floor or cursor.count == self._wanted.limit:
                cursor.is_ended = True
                return bursts
            cursor.below, cursor.reached = row.seq, row.opened_at
            if self._wanted.is_after(row.opened_at, row.subject, row.seq) and self._wanted.admits(row.restricted_to):
                bursts.append((row.opened_at, row.subject, row.seq, row.blob))
                cursor.count += 1
        if len(page) < size:
            cursor.end_run()
        return bursts


def _names(cursors: Iterable[_NewestCursor]) -> list[str]:
    return [cursor.subject for cursor in cursors]


def _by_subject(rows: Iterable[Any]) -> Mapping[str, Sequence[Any]]:
    """Group rows by subject. The rows of a subject are adjacent, because a subject has one partition."""
    return {subject: list(group) for subject, group in groupby(rows, attrgetter("subject"))}
