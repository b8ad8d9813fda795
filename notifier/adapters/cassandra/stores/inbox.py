"""The inbox, written: bitmaps become messages by slicing; each row is told how long it lives."""

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
from notifier.adapters.cassandra.bulk.writer import Bulk
from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.batching import batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, range_of
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import expires_at
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition


class CassandraInbox:
    def __init__(self, cluster: Cluster, clock: Clock, bulk: Bulk | None = None) -> None:
        self._clock = clock
        self._bulk = bulk or Bulk(cluster)

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        # Nobody reads half a slice wrongly: a row is a hint where to look, and its own mutation each range.
        if some := [one for one in rows if one.written and self._left(one) > 0]:
            self._bulk.send(self._messages(some, going))

    def sweep(self, now: datetime, limit: int) -> int:
        """Nothing to do: rows and seals were told when to end."""
        return 0

    def _messages(self, rows: Sequence[InboxRows], going: Callable[[], None]) -> Iterator[RowBatch]:
        query_id = self._bulk.query_id()
        for one in rows:
            going()
            yield from messages(one, max(1, self._left(one)), query_id)

    def _left(self, rows: InboxRows) -> int:
        """Whole seconds to live. A row with none is left to the pull path: without TTL it would stay for ever."""
        return seconds_until(expires_at(rows.opened_at), self._clock.now())


# One member's inbox rows, newest first: those of the subjects that the member follows, window by window.

NAMES = 16
"""Subjects in one question: some operators forbid more than 20."""
ROWS = 512
"""In one answer; at most 300 kB. Where there are more, each subject is asked for alone."""
FIRST_ROWS = 64
"""Rows of each of these that are read first, at least: most subjects have fewer in an inbox window."""
LAST = (1 << 63) - 1
"""Behind every time and number that Cassandra can hold."""

_ROWS = statement("inbox_rows")
_OF_SUBJECT = statement("inbox_rows_of_subject")
_FILLED = "SELECT inbox_window FROM inbox WHERE member_range = ? AND inbox_window IN ? PER PARTITION LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """Whose rows, and how many."""

    member: Member
    subjects: Sequence[str]
    place: InboxPosition | None
    limit: int

    @property
    def until(self) -> int:
        """Return the time after which no burst behind the place opened."""
        return LAST if self.place is None else to_ms(self.place.opened_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inboxes:
    reader: CassandraReader

    async def rows(self, wanted: WantedRows, windows: range) -> list[InboxRow]:
        """Of these inbox windows, which are given newest first. Nearly always the first is enough; of the others those
        that hold nothing of the range are passed over, and of what is left ever more are asked side by side.
        """
        found = await self._windows(wanted, windows[:1])
        if len(found) < wanted.limit and len(windows) > 1:
            for some in _growing(await self._filled(range_of(wanted.member), windows[1:])):
                found += await self._windows(wanted, some)
                if len(found) >= wanted.limit:
                    break
        return found[: wanted.limit]

    async def _filled(self, member_range: int, windows: range) -> list[int]:
        found = await self.reader(_FILLED, (member_range, list(windows)))
        return sorted((stored.inbox_window for stored in found), reverse=True)

    async def _windows(self, wanted: WantedRows, windows: Sequence[int]) -> list[InboxRow]:
        each = await asyncio.gather(*(self._window(wanted, window) for window in windows))
        return [row for rows in each for row in rows]

    async def _window(self, wanted: WantedRows, window: int) -> list[InboxRow]:
        groups = [wanted.subjects[at : at + NAMES] for at in range(0, len(wanted.subjects), NAMES)]
        several = [names for names in groups if len(names) > 1]
        alone = [name for names in groups if len(names) == 1 for name in names]
        found = list[InboxRow]()
        answers = await self._asked(_ROWS, wanted, window, [(names, wanted.until, ROWS) for names in several])
        for names, rows in zip(several, answers, strict=True):
            if len(rows) < ROWS:
                found += _reaching(wanted, rows)
            else:
                alone += names
        found += await self._alone(wanted, window, [_Cursor(name, (wanted.until, LAST)) for name in alone])
        return sorted(found, key=_place, reverse=True)[: wanted.limit]

    async def _alone(self, wanted: WantedRows, window: int, cursors: Sequence["_Cursor"]) -> list[InboxRow]:
        """Rows that don't reach the member are passed over until there are enough, or none are left."""
        every, size = cursors, min(ROWS, max(FIRST_ROWS, len(TIERS) * wanted.limit))
        while cursors:
            questions = [(cursor.name, *cursor.behind, size) for cursor in cursors]
            answers = await self._asked(_OF_SUBJECT, wanted, window, questions)
            for cursor, rows in zip(cursors, answers, strict=True):
                cursor.take(rows, size, _reaching(wanted, rows))
            cursors = [cursor for cursor in cursors if cursor.full and len(cursor.found) < wanted.limit]
            size = ROWS
        return [row for cursor in every for row in cursor.found.values()]

    async def _asked(
        self, statement: str, wanted: WantedRows, window: int, questions: Sequence[tuple[object, ...]]
    ) -> list[list[InboxRow]]:
        place = range_of(wanted.member), window
        # One call, so that a member who follows thousands doesn't take the places of all other calls.
        answers = await self.reader.each(statement, [(*place, *question) for question in questions])
        return [[row_of(stored) for stored in rows] for rows in answers]


@dataclass(slots=True)
class _Cursor:
    """How far back one subject's rows of an inbox window have been read."""

    name: str
    behind: tuple[int, int]
    """Opening and number of the last burst that was read."""
    full: bool = True
    """Whether there may be more rows."""
    found: dict[tuple[BurstKey, Tier], InboxRow] = field(default_factory=dict)

    def take(self, rows: Sequence[InboxRow], size: int, reaching: Sequence[InboxRow]) -> None:
        self.found |= {(row.burst, row.tier): row for row in reaching}
        self.full = len(rows) == size
        if self.full:
            # A burst has a row for each tier, and an answer may end between them: the last burst is read again.
            self.behind = to_ms(rows[-1].opened_at), rows[-1].burst.seq


def _reaching(wanted: WantedRows, rows: Sequence[InboxRow]) -> list[InboxRow]:
    behind = rows if wanted.place is None else [row for row in rows if _place(row) < wanted.place]
    return [row for row in behind if row.reaches(wanted.member)]


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


# The newest bursts of many subjects: a few of each, and then more of those that may have newer ones.

SUBJECTS_AT_ONCE = 128
"""What the newest of these leave over bounds how far back the others are read."""
RUNS_AT_ONCE = 16
FIRST = 4
"""Bursts of each subject that are read first. Most subjects have not even one on the page."""

_RUNS = statement("runs_before")
_BEFORE = statement("bursts_before")

Found = tuple[int, str, int, bytes]
"""A burst: opened at, subject, seq and blob; compares as its place does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    place: InboxPosition | None
    limit: int
    authors: Collection[str] | None
    floor: int
    """What opened before it is of no use."""

    @property
    def opened_by(self) -> int:
        """No burst behind the place opened later."""
        return LAST if self.place is None else to_ms(self.place.opened_at)

    def behind(self, opened_at: int, subject: str, seq: int) -> bool:
        if self.place is None:
            return True
        there = str(self.place.burst.subject)
        return (opened_at, subject, seq) < (to_ms(self.place.opened_at), there, self.place.burst.seq)

    def admits(self, restricted_to: str | None) -> bool:
        return self.authors is None or not restricted_to or restricted_to in self.authors


@dataclass(slots=True)
class _Cursor_newest:
    """How far back one subject has been read. Within a subject seq and opening have one order."""

    subject: str
    runs: deque[int] = field(default_factory=deque)
    """Those that are to be read, the newest first; it is read down to `below`."""
    below: int = LAST
    last_run: int = LAST
    """Older runs were not asked for."""
    more_runs: bool = True
    reached: int = LAST
    """When the last burst that was read opened."""
    count: int = 0
    """Bursts that were found."""
    ended: bool = False

    def take_runs(self, runs: Sequence[int]) -> None:
        self.runs.extend(runs)
        self.last_run = runs[-1] if runs else self.last_run
        self.more_runs = len(runs) == RUNS_AT_ONCE
        self.ended = not self.runs

    def end_run(self) -> None:
        self.runs.popleft()
        self.below = LAST
        self.ended = not (self.runs or self.more_runs)


class Newest:
    """One walk back from a place, over any number of subjects."""

    def __init__(self, reader: CassandraReader, wanted: RowQuery) -> None:
        self._reader = reader
        self._wanted = wanted
        self._floor = wanted.floor
        self._best: list[Found] = []

    async def of(self, subjects: Collection[Subject]) -> Sequence[Found]:
        """As many as are wanted, newest first; none that is newer than the last is missing."""
        for some in batches(sorted({str(subject) for subject in subjects}), SUBJECTS_AT_ONCE):
            await self._walk([_Cursor_newest(subject) for subject in some])
        return self._best

    async def _walk(self, cursors: Sequence[_Cursor_newest]) -> None:
        # Where the page is full already most of these have nothing newer, which one burst of each tells.
        size = min(FIRST if len(self._best) < self._wanted.limit else 1, self._wanted.limit)
        while cursors:
            await self._find_runs([cursor for cursor in cursors if not cursor.runs])
            found = await self._read([cursor for cursor in cursors if not cursor.ended], size)
            self._best = heapq.nlargest(self._wanted.limit, [*self._best, *found])
            if len(self._best) == self._wanted.limit:
                self._floor = max(self._floor, self._best[-1][0])
            cursors = [cursor for cursor in cursors if not cursor.ended and cursor.reached >= self._floor]
            size = self._wanted.limit

    async def _find_runs(self, cursors: Iterable[_Cursor_newest]) -> None:
        asked = [
            (run, some)
            for run, group in groupby(sorted(cursors, key=attrgetter("last_run")), attrgetter("last_run"))
            for some in batches(group, NAMES)
        ]
        by = self._wanted.opened_by
        answers = await self._reader.each(_RUNS, [(_names(some), run, by, RUNS_AT_ONCE) for run, some in asked])
        for (_, some), rows in zip(asked, answers, strict=True):
            runs = _by_subject(rows)
            for cursor in some:
                cursor.take_runs([row.run for row in runs.get(cursor.subject, ())])

    async def _read(self, cursors: Iterable[_Cursor_newest], size: int) -> Sequence[Found]:
        def place(cursor: _Cursor_newest) -> tuple[int, int]:
            return cursor.runs[0], cursor.below

        asked = [
            (at, some) for at, group in groupby(sorted(cursors, key=place), place) for some in batches(group, NAMES)
        ]
        by = self._wanted.opened_by
        answers = await self._reader.each(_BEFORE, [(_names(some), *at, by, size) for at, some in asked])
        found: list[Found] = []
        for (_, some), rows in zip(asked, answers, strict=True):
            pages = _by_subject(rows)
            for cursor in some:
                found += self._take(cursor, pages.get(cursor.subject, ()), size)
        return found

    def _take(self, cursor: _Cursor_newest, page: Sequence[Any], size: int) -> Sequence[Found]:
        """What of a page is wanted; moves the cursor behind it."""
        found: list[Found] = []
        for row in page:
            if row.opened_at < self._floor or cursor.count == self._wanted.limit:
                cursor.ended = True
                return found
            cursor.below, cursor.reached = row.seq, row.opened_at
            if self._wanted.behind(row.opened_at, row.subject, row.seq) and self._wanted.admits(row.restricted_to):
                found.append((row.opened_at, row.subject, row.seq, row.blob))
                cursor.count += 1
        if len(page) < size:
            cursor.end_run()
        return found


def _names(cursors: Iterable[_Cursor_newest]) -> list[str]:
    return [cursor.subject for cursor in cursors]


def _by_subject(rows: Iterable[Any]) -> Mapping[str, Sequence[Any]]:
    """The rows of a subject come together, as the partitions do."""
    return {subject: list(some) for subject, some in groupby(rows, attrgetter("subject"))}
