"""One member's inbox rows, newest first: those of the subjects that the member follows, window by window."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience import Tier
from notifier.domain.inbox_rows import InboxRow, range_of
from notifier.domain.subject import BurstKey, Member, Subject
from notifier.ports.timeline import Place

NAMES = 100
"""Subjects in one question."""
ROWS = 512
"""In one answer; at most 300 kB. Where there are more, each subject is asked for alone."""
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
        names = [wanted.subjects[at : at + NAMES] for at in range(0, len(wanted.subjects), NAMES)]
        each = await asyncio.gather(*(self._of(wanted, window, some) for some in names))
        return sorted(chain.from_iterable(each), key=_place, reverse=True)[: wanted.limit]

    async def _of(self, wanted: Wanted, window: int, names: Sequence[str]) -> list[InboxRow]:
        until = LAST if wanted.place is None else to_ms(wanted.place.opened_at)
        if len(names) > 1:
            rows = await self._asked(_ROWS, wanted, window, names, until)
            if len(rows) < ROWS:
                return _reaching(wanted, rows)
        each = await asyncio.gather(*(self._of_subject(wanted, window, name, until) for name in names))
        return list(chain.from_iterable(each))

    async def _of_subject(self, wanted: Wanted, window: int, name: str, until: int) -> list[InboxRow]:
        """Rows that don't reach the member are passed over until there are enough, or none are left."""
        found, behind, full = dict[tuple[BurstKey, Tier], InboxRow](), (until, LAST), True
        while full and len(found) < wanted.limit:
            rows = await self._asked(_OF_SUBJECT, wanted, window, name, *behind)
            found |= {(row.burst, row.tier): row for row in _reaching(wanted, rows)}
            full = len(rows) == ROWS
            # A burst has a row for each tier, and an answer may end between them: the last burst is read again.
            behind = (to_ms(rows[-1].opened_at), rows[-1].burst.seq) if full else behind
        return list(found.values())

    async def _asked(self, statement: str, wanted: Wanted, window: int, *bounds: object) -> list[InboxRow]:
        question = range_of(wanted.member), window, *bounds, ROWS
        return [row_of(stored) for stored in await self.reader(statement, question)]


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
