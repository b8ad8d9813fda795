"""One member's inbox rows, newest first: those of the subjects that the member follows, window by window."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience.inbox_rows import InboxRow, range_of
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.ids import BurstKey, Member, Subject
from notifier.ports.inbox import Place

NAMES = 16
"""Subjects in one question: some operators forbid more than 20."""
ROWS = 512
"""In one answer; at most 300 kB. Where there are more, each subject is asked for alone."""
FIRST = 64
"""Rows of each of these that are read first, at least: most subjects have fewer in an inbox window."""
LAST = (1 << 63) - 1
"""Behind every time and number that Cassandra can hold."""

_ROWS = statement("inbox_rows")
_OF_SUBJECT = statement("inbox_rows_of_subject")
_FILLED = "SELECT inbox_window FROM inbox WHERE member_range = ? AND inbox_window IN ? PER PARTITION LIMIT 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose rows, and how many."""

    member: Member
    subjects: Sequence[str]
    place: Place | None
    limit: int

    @property
    def until(self) -> int:
        """Return the time after which no burst behind the place opened."""
        return LAST if self.place is None else to_ms(self.place.opened_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inboxes:
    reader: Reader

    async def rows(self, wanted: Wanted, windows: range) -> list[InboxRow]:
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

    async def _windows(self, wanted: Wanted, windows: Sequence[int]) -> list[InboxRow]:
        each = await asyncio.gather(*(self._window(wanted, window) for window in windows))
        return [row for rows in each for row in rows]

    async def _window(self, wanted: Wanted, window: int) -> list[InboxRow]:
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

    async def _alone(self, wanted: Wanted, window: int, cursors: Sequence["_Cursor"]) -> list[InboxRow]:
        """Rows that don't reach the member are passed over until there are enough, or none are left."""
        every, size = cursors, min(ROWS, max(FIRST, len(TIERS) * wanted.limit))
        while cursors:
            questions = [(cursor.name, *cursor.behind, size) for cursor in cursors]
            answers = await self._asked(_OF_SUBJECT, wanted, window, questions)
            for cursor, rows in zip(cursors, answers, strict=True):
                cursor.take(rows, size, _reaching(wanted, rows))
            cursors = [cursor for cursor in cursors if cursor.full and len(cursor.found) < wanted.limit]
            size = ROWS
        return [row for cursor in every for row in cursor.found.values()]

    async def _asked(
        self, statement: str, wanted: Wanted, window: int, questions: Sequence[tuple[object, ...]]
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


def _reaching(wanted: Wanted, rows: Sequence[InboxRow]) -> list[InboxRow]:
    behind = rows if wanted.place is None else [row for row in rows if _place(row) < wanted.place]
    return [row for row in behind if row.reaches(wanted.member)]


def _growing(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    begin, many = 0, 2
    while begin < len(windows):
        yield windows[begin : begin + many]
        begin, many = begin + many, 2 * many


def _place(row: InboxRow) -> Place:
    return Place(row.opened_at, row.burst)


def row_of(stored: Any) -> InboxRow:
    return InboxRow(
        burst=BurstKey(Subject.parse(stored.subject), stored.seq),
        opened_at=from_ms(stored.opened_at),
        tier=Tier(stored.tier),
        members=stored.members,
    )
