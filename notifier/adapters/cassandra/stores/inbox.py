"""Writes inbox rows, and reads inbox rows and the newest bursts of many subjects.

Bitmaps are sliced into messages. Each row is written with its TTL.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.bulk.encoding import RowBatch, messages
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.cassandra.driver.async_reader import CassandraReader
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
        # A partly written slice is harmless to readers: a row is only a hint where to look, and each range is its own
        # mutation.
        if unexpired := [group for group in rows if group.row_count and self._ttl(group) > 0]:
            self._bulk.send(self._messages(unexpired, on_progress))

    def delete_expired(self, now: datetime, limit: int) -> int:
        """Do nothing: rows and audience snapshots expire by TTL."""
        return 0

    def _messages(self, rows: Sequence[InboxRows], on_progress: Callable[[], None]) -> Iterator[RowBatch]:
        query_id = self._bulk.query_id()
        for group in rows:
            on_progress()
            yield from messages(group, max(1, self._ttl(group)), query_id)

    def _ttl(self, rows: InboxRows) -> int:
        """Return the remaining life in whole seconds.

        Expired rows are left to the pull path: without a TTL they never end.
        """
        return seconds_until(expires_at(rows.opened_at), self._clock.now())


# Inbox rows of one member, newest first: rows of the followed subjects, window by window.

NAMES = 16
"""Subjects per query. Some operators forbid more than 20."""
ROWS = 512
"""Maximum rows per answer, at most 300 kB. If there are more, each subject is queried alone."""
FIRST_ROWS = 64
"""Minimum row limit of the first query of a single subject. Most subjects have fewer rows in an inbox window."""
LAST = (1 << 63) - 1
"""Greater than every time and number that Cassandra can store."""

_ROWS = load_statement("read_inbox_rows")
_OF_SUBJECT = load_statement("read_subject_rows")
_FILLED = "SELECT inbox_window FROM inbox WHERE member_range = ? AND inbox_window IN ? PER PARTITION LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """The member whose rows are read, the subjects, the position and the limit."""

    member: Member
    subjects: Sequence[str]
    place: InboxPosition | None
    limit: int

    @property
    def until(self) -> int:
        """Return the opening of the position: later rows of the page order did not open after it."""
        return LAST if self.place is None else to_ms(self.place.opened_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRowReader:
    reader: CassandraReader

    async def rows(self, wanted: WantedRows, windows: range) -> list[InboxRow]:
        """Return the rows of these inbox windows, which are given newest first.

        The first window is nearly always enough. Of the others the empty ones are skipped, and the rest is queried
        concurrently in growing groups.
        """
        rows = await self._windows(wanted, windows[:1])
        if len(rows) < wanted.limit and len(windows) > 1:
            for group in _growing(await self._filled_windows(range_of(wanted.member), windows[1:])):
                rows += await self._windows(wanted, group)
                if len(rows) >= wanted.limit:
                    break
        return rows[: wanted.limit]

    async def _filled_windows(self, member_range: int, windows: range) -> list[int]:
        answer = await self.reader(_FILLED, (member_range, list(windows)))
        return sorted((stored.inbox_window for stored in answer), reverse=True)

    async def _windows(self, wanted: WantedRows, windows: Sequence[int]) -> list[InboxRow]:
        pages = await asyncio.gather(*(self._window(wanted, window) for window in windows))
        return [row for rows in pages for row in rows]

    async def _window(self, wanted: WantedRows, window: int) -> list[InboxRow]:
        groups = [wanted.subjects[at : at + NAMES] for at in range(0, len(wanted.subjects), NAMES)]
        several = [names for names in groups if len(names) > 1]
        single = [name for names in groups if len(names) == 1 for name in names]
        result = list[InboxRow]()
        answers = await self._query(_ROWS, wanted, window, [(names, wanted.until, ROWS) for names in several])
        for names, rows in zip(several, answers, strict=True):
            if len(rows) < ROWS:
                result += _reaching(wanted, rows)
            else:
                single += names
        result += await self._read_by_subject(
            wanted, window, [_SubjectRowCursor(name, (wanted.until, LAST)) for name in single]
        )
        return sorted(result, key=_place, reverse=True)[: wanted.limit]

    async def _read_by_subject(
        self, wanted: WantedRows, window: int, cursors: Sequence["_SubjectRowCursor"]
    ) -> list[InboxRow]:
        """Read subjects separately. Skip rows that don't reach the member, until there are enough rows or no more."""
        all_cursors, size = cursors, min(ROWS, max(FIRST_ROWS, len(TIERS) * wanted.limit))
        while cursors:
            questions = [(cursor.name, *cursor.last_read, size) for cursor in cursors]
            answers = await self._query(_OF_SUBJECT, wanted, window, questions)
            for cursor, rows in zip(cursors, answers, strict=True):
                cursor.take(rows, size, _reaching(wanted, rows))
            cursors = [cursor for cursor in cursors if cursor.has_more and len(cursor.rows) < wanted.limit]
            size = ROWS
        return [row for cursor in all_cursors for row in cursor.rows.values()]

    async def _query(
        self, statement: str, wanted: WantedRows, window: int, questions: Sequence[tuple[object, ...]]
    ) -> list[list[InboxRow]]:
        place = range_of(wanted.member), window
        # One call, so that a member who follows thousands of subjects doesn't use up the in-flight limit of all other
        # calls.
        answers = await self.reader.query_each(statement, [(*place, *question) for question in questions])
        return [[row_of(stored) for stored in rows] for rows in answers]


@dataclass(slots=True)
class _SubjectRowCursor:
    """Read position within one subject's rows of an inbox window."""

    name: str
    last_read: tuple[int, int]
    """Opening and number of the last burst that was read."""
    has_more: bool = True
    """Whether there may be more rows."""
    rows: dict[tuple[BurstKey, Tier], InboxRow] = field(default_factory=dict)

    def take(self, rows: Sequence[InboxRow], size: int, reaching: Sequence[InboxRow]) -> None:
        self.rows |= {(row.burst, row.tier): row for row in reaching}
        self.has_more = len(rows) == size
        if self.has_more:
            # A burst has a row for each tier, and a page may end between them: read the last burst again.
            self.last_read = to_ms(rows[-1].opened_at), rows[-1].burst.seq


def _reaching(wanted: WantedRows, rows: Sequence[InboxRow]) -> list[InboxRow]:
    older = rows if wanted.place is None else [row for row in rows if _place(row) < wanted.place]
    return [row for row in older if row.contains(wanted.member)]


def _growing(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    begin, many = 0, 2
    while begin < len(windows):
        yield windows[begin : begin + many]
        begin, many = begin + many, 2 * many


def _place(row: InboxRow) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)


def row_of(stored: Any) -> InboxRow:
    return InboxRow(
        burst=BurstKey(Subject.parse(stored.subject), stored.seq),
        opened_at=from_ms(stored.opened_at),
        tier=Tier(stored.tier),
        members=stored.members,
    )


# The newest bursts of many subjects: a few of each, and then more for subjects that may have newer ones.

SUBJECTS_AT_ONCE = 128
"""Subjects read together. Their newest bursts bound how far back the next subjects are read."""
RUNS_AT_ONCE = 16
FIRST = 4
"""Bursts of each subject in the first query. Most subjects have none on the page."""

_RUNS = load_statement("read_runs_before")
_BEFORE = load_statement("read_bursts_before")

NewestRow = tuple[int, str, int, bytes]
"""Opening, subject, seq and blob of a burst; sorts as its position does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    place: InboxPosition | None
    limit: int
    authors: Collection[str] | None
    floor: int
    """Bursts that opened earlier are ignored."""

    @property
    def opened_by(self) -> int:
        """Return the opening of the position: later bursts of the page order did not open after it."""
        return LAST if self.place is None else to_ms(self.place.opened_at)

    def is_after(self, opened_at: int, subject: str, seq: int) -> bool:
        if self.place is None:
            return True
        there = str(self.place.burst.subject)
        return (opened_at, subject, seq) < (to_ms(self.place.opened_at), there, self.place.burst.seq)

    def admits(self, restricted_to: str | None) -> bool:
        return self.authors is None or not restricted_to or restricted_to in self.authors


@dataclass(slots=True)
class _NewestCursor:
    """Read position within one subject. Within a subject seq and opening have the same order."""

    subject: str
    runs: deque[int] = field(default_factory=deque)
    """Runs to read, newest first. The first one is read down to `below`."""
    below: int = LAST
    last_run: int = LAST
    """Older runs were not queried yet."""
    has_more_runs: bool = True
    reached: int = LAST
    """Opening of the last burst that was read."""
    count: int = 0
    """Number of bursts found so far."""
    is_ended: bool = False

    def take_runs(self, runs: Sequence[int]) -> None:
        self.runs.extend(runs)
        self.last_run = runs[-1] if runs else self.last_run
        self.has_more_runs = len(runs) == RUNS_AT_ONCE
        self.is_ended = not self.runs

    def end_run(self) -> None:
        self.runs.popleft()
        self.below = LAST
        self.is_ended = not (self.runs or self.has_more_runs)


class NewestBursts:
    """One backward scan from a position over any number of subjects."""

    def __init__(self, reader: CassandraReader, wanted: RowQuery) -> None:
        self._reader = reader
        self._wanted = wanted
        self._floor = wanted.floor
        self._best: list[NewestRow] = []

    async def of(self, subjects: Collection[Subject]) -> Sequence[NewestRow]:
        """Return the newest bursts up to the limit, newest first and without gaps."""
        for batch in batches(sorted({str(subject) for subject in subjects}), SUBJECTS_AT_ONCE):
            await self._walk([_NewestCursor(subject) for subject in batch])
        return self._best

    async def _walk(self, cursors: Sequence[_NewestCursor]) -> None:
        # Once the page is full, most subjects have nothing newer; one burst of each shows that.
        size = min(FIRST if len(self._best) < self._wanted.limit else 1, self._wanted.limit)
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
            for batch in batches(group, NAMES)
        ]
        opened_by = self._wanted.opened_by
        answers = await self._reader.query_each(
            _RUNS, [(_names(batch), run, opened_by, RUNS_AT_ONCE) for run, batch in queries]
        )
        for (_, batch), rows in zip(queries, answers, strict=True):
            runs = _by_subject(rows)
            for cursor in batch:
                cursor.take_runs([row.run for row in runs.get(cursor.subject, ())])

    async def _read(self, cursors: Iterable[_NewestCursor], size: int) -> Sequence[NewestRow]:
        def place(cursor: _NewestCursor) -> tuple[int, int]:
            return cursor.runs[0], cursor.below

        queries = [
            (at, batch) for at, group in groupby(sorted(cursors, key=place), place) for batch in batches(group, NAMES)
        ]
        opened_by = self._wanted.opened_by
        answers = await self._reader.query_each(
            _BEFORE, [(_names(batch), *at, opened_by, size) for at, batch in queries]
        )
        bursts: list[NewestRow] = []
        for (_, batch), rows in zip(queries, answers, strict=True):
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
