"""One member's inbox rows, newest first: her own and the block rows with her bit, window by window."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_MEMBERS
from notifier.domain.block import BLOCK_SLOT, Row
from notifier.domain.subject import BurstKey, Member, Subject
from notifier.ports.timeline import Place

BLOCK_ROWS = 128
"""At once: 20 hits at a density of 16 %, for 361 us of the node's time."""
LAST = (1 << 63) - 1
"""Behind every time and number that Cassandra can hold."""

_ROWS = statement("inbox_rows")
_FILLED = "SELECT inbox_window FROM inbox WHERE block = ? AND inbox_window IN ? PER PARTITION LIMIT 1"

Behind = tuple[int, str, int]
"""Opened at, subject, seq."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inboxes:
    reader: Reader

    async def rows(self, member: Member, place: Place | None, limit: int, windows: range) -> list[Row]:
        """Of these inbox windows, which are given newest first. Nearly always the first is enough; of the others those
        that hold nothing of the block are passed over, and of what is left ever more are asked side by side.
        """
        found = await self._windows(member, windows[:1], place, limit)
        if len(found) < limit and len(windows) > 1:
            for some in _growing(await self._filled(member // BLOCK_MEMBERS, windows[1:])):
                found += await self._windows(member, some, place, limit)
                if len(found) >= limit:
                    break
        return found[:limit]

    async def _filled(self, block: int, windows: range) -> list[int]:
        found = await self.reader(_FILLED, (block, list(windows)))
        return sorted((stored.inbox_window for stored in found), reverse=True)

    async def _windows(self, member: Member, windows: Sequence[int], place: Place | None, limit: int) -> list[Row]:
        each = await asyncio.gather(*(self._window(member, window, place, limit) for window in windows))
        return [row for rows in each for row in rows]

    async def _window(self, member: Member, window: int, place: Place | None, limit: int) -> list[Row]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        behind = (LAST, "", 0) if place is None else _behind(to_ms(place.opened_at), place.burst)
        own, shared = await asyncio.gather(
            self._asked(block, window, slot, behind, limit), self._with_bit(member, window, behind, limit)
        )
        return sorted([*own, *shared], key=_place, reverse=True)[:limit]

    async def _with_bit(self, member: Member, window: int, behind: Behind, limit: int) -> list[Row]:
        """Block rows of others are passed over until there are enough, or none are left."""
        found: dict[Behind, Row] = {}
        block, full = member // BLOCK_MEMBERS, True
        while full and len(found) < limit:
            page = await self._asked(block, window, BLOCK_SLOT, behind, BLOCK_ROWS)
            found |= {_behind(to_ms(row.opened_at), row.burst): row for row in page if row.reaches(member)}
            full = len(page) == BLOCK_ROWS
            # A burst may have a row for each tier, and a page may end between them: the last burst is read again.
            behind = _behind(to_ms(page[-1].opened_at), page[-1].burst, 1) if full else behind
        return list(found.values())

    async def _asked(self, block: int, window: int, slot: int, behind: Behind, limit: int) -> list[Row]:
        return [row_of(stored) for stored in await self.reader(_ROWS, (block, window, slot, *behind, limit))]


def _growing(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    begin, many = 0, 2
    while begin < len(windows):
        yield windows[begin : begin + many]
        begin, many = begin + many, 2 * many


def _behind(opened_at: int, burst: BurstKey, more: int = 0) -> Behind:
    return opened_at, str(burst.subject), burst.seq + more


def _place(row: Row) -> Place:
    return Place(row.opened_at, row.burst)


def row_of(stored: Any) -> Row:
    return Row(
        burst=BurstKey(Subject.parse(stored.subject), stored.seq),
        opened_at=from_ms(stored.opened_at),
        tier=Tier(stored.tier),
        slot=stored.slot,
        members=stored.members,
    )
