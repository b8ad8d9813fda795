"""Stores dead letters, and their tallies by processing lane, in core.db."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import append_to_audit
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop, resume_audit, resumed
from notifier.ports.event_log_and_dead_letters import DeadLetter

LETTER_COLUMNS = "id, stage, cause, body, at"
_INSERT_LETTER = f"INSERT OR IGNORE INTO dead_letters ({LETTER_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
_SELECT_NEWEST = f"SELECT {LETTER_COLUMNS} FROM dead_letters ORDER BY at DESC, id DESC LIMIT ?"

LetterRow = tuple[str, str, str, bytes, int]


class SqliteDeadLetters:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, letter: DeadLetter) -> None:
        with self._db.write() as c:
            c.execute(_INSERT_LETTER, (letter.id, letter.stage, letter.cause, letter.body, to_ms(letter.at)))

    def list(self, limit: int) -> Sequence[DeadLetter]:
        with self._db.read() as c:
            return [letter_of(row) for row in c.execute(_SELECT_NEWEST, (limit,))]


def letter_of(row: LetterRow) -> DeadLetter:
    id, stage, cause, body, at = row
    return DeadLetter(id=id, stage=stage, cause=cause, body=body, at=from_ms(at))


# Lane tallies in core.db: a tally is replaced only by its next version.

_SELECT_TALLIES = "SELECT blob FROM lane_tallies WHERE lane IN (SELECT value FROM json_each(?))"
_REPLACE_TALLY = "INSERT OR REPLACE INTO lane_tallies (lane, version, blob) VALUES (?, ?, ?)"


class SqliteDeadLetterTallies:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
        with self._db.read() as c:
            return _read_tallies(c, lanes)

    def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
        with self._db.write() as c:
            stored = _read_tallies(c, [tally.lane])[tally.lane]
            if stored.version != tally.version - 1:
                return stored
            _put_tally(c, tally)
            return tally

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        with self._db.write() as c:
            stored = _read_tallies(c, [lane])[lane]
            if stored.stop is None:
                return None
            _put_tally(c, resumed(stored))
            append_to_audit(
                c, at=now, operator=operator, action="lane.resume", detail=resume_audit(lane, stored.stop, reason)
            )
            return stored.stop


def _read_tallies(c: sqlite3.Connection, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
    rows = c.execute(_SELECT_TALLIES, (json.dumps(list(lanes)),)).fetchall()
    stored = {tally.lane: tally for tally in (unpack(DeadLetterTally, blob) for (blob,) in rows)}
    return {lane: stored.get(lane) or DeadLetterTally(lane=lane) for lane in lanes}


def _put_tally(c: sqlite3.Connection, tally: DeadLetterTally) -> None:
    c.execute(_REPLACE_TALLY, (tally.lane, tally.version, pack(tally)))
