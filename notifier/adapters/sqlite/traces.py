"""What is left of somebody's words in core.db, beside mentions."""

import json
from collections.abc import Collection, Iterator

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.deadletters import COLUMNS as LETTER
from notifier.adapters.sqlite.deadletters import Stored, letter_of
from notifier.adapters.sqlite.holds import COLUMNS as HOLD
from notifier.adapters.sqlite.holds import hold_of
from notifier.codec import pack
from notifier.domain.bursts.held_mention import Hold
from notifier.domain.ids import UserId
from notifier.ports.dead_letters import DeadLetter

AT_ONCE = 500
"""Rows a read: none is long enough to hold back the clean-up of the write-ahead log."""

_HELD = (
    f"SELECT {HOLD}, rowid FROM holds WHERE author IN (SELECT value FROM json_each(?)) AND rowid > ?"
    " AND event IS NOT NULL ORDER BY rowid LIMIT ?"
)
_BLANK = "UPDATE holds SET event = ? WHERE id = ? AND source = ? AND event IS NOT NULL"
_LETTERS = f"SELECT {LETTER} FROM dead_letters WHERE id > ? AND length(body) > 0 ORDER BY id LIMIT ?"
_EMPTY = "UPDATE dead_letters SET body = x'' WHERE id = ?"


class SqliteTraces:
    def __init__(self, db: Database) -> None:
        self._db = db

    def held(self, authors: Collection[UserId]) -> Iterator[Hold]:
        asked, place = json.dumps(list(authors)), 0
        while rows := self._held(asked, place):
            for hold in (hold_of(row[:7]) for row in rows):
                if hold.event and hold.event.text:
                    yield hold
            place = rows[-1][7]

    def blank(self, holds: Collection[Hold]) -> None:
        with self._db.write() as c:
            c.executemany(_BLANK, [(pack(hold.blank.event), hold.id.id, hold.id.source) for hold in holds])

    def letters(self) -> Iterator[DeadLetter]:
        behind = ""
        while rows := self._letters(behind):
            yield from map(letter_of, rows)
            behind = rows[-1][0]

    def empty(self, letters: Collection[DeadLetter]) -> None:
        with self._db.write() as c:
            c.executemany(_EMPTY, [(letter.id,) for letter in letters])

    def _held(self, authors: str, behind: int) -> list[tuple[str, str, str, bytes, int, bytes, str | None, int]]:
        with self._db.read() as c:
            return c.execute(_HELD, (authors, behind, AT_ONCE)).fetchall()

    def _letters(self, behind: str) -> list[Stored]:
        with self._db.read() as c:
            return c.execute(_LETTERS, (behind, AT_ONCE)).fetchall()
