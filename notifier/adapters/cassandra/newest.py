"""The newest bursts of many subjects: a few of each, and then more of those that may have newer ones."""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.inboxes import LAST, NAMES
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.statements import statement
from notifier.adapters.cassandra.together import batches
from notifier.codec.moments import to_ms
from notifier.domain.ids import Subject
from notifier.ports.inbox import Place

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
class Wanted:
    place: Place | None
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
class _Cursor:
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

    def __init__(self, reader: Reader, wanted: Wanted) -> None:
        self._reader = reader
        self._wanted = wanted
        self._floor = wanted.floor
        self._best: list[Found] = []

    async def of(self, subjects: Collection[Subject]) -> Sequence[Found]:
        """As many as are wanted, newest first; none that is newer than the last is missing."""
        for some in batches(sorted({str(subject) for subject in subjects}), SUBJECTS_AT_ONCE):
            await self._walk([_Cursor(subject) for subject in some])
        return self._best

    async def _walk(self, cursors: Sequence[_Cursor]) -> None:
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

    async def _find_runs(self, cursors: Iterable[_Cursor]) -> None:
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

    async def _read(self, cursors: Iterable[_Cursor], size: int) -> Sequence[Found]:
        def place(cursor: _Cursor) -> tuple[int, int]:
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

    def _take(self, cursor: _Cursor, page: Sequence[Any], size: int) -> Sequence[Found]:
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


def _names(cursors: Iterable[_Cursor]) -> list[str]:
    return [cursor.subject for cursor in cursors]


def _by_subject(rows: Iterable[Any]) -> Mapping[str, Sequence[Any]]:
    """The rows of a subject come together, as the partitions do."""
    return {subject: list(some) for subject, some in groupby(rows, attrgetter("subject"))}
