"""The heads in core.db: each is replaced only by the version that follows the stored one."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence

from notifier.adapters.sqlite.connection import Database
from notifier.codec import pack, unpack
from notifier.domain.bursts.sequencer import Head
from notifier.domain.ids import Subject

_LOAD = "SELECT blob FROM heads WHERE subject IN (SELECT value FROM json_each(?))"
_UNPUBLISHED = "SELECT subject FROM heads WHERE published = 0 ORDER BY subject LIMIT ?"
_FIRST = "INSERT OR IGNORE INTO heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?)"
_NEXT = "UPDATE heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? AND version = ? - 1"
_STORED = "SELECT 1 FROM heads WHERE subject = ? AND version = ? AND nonce = ?"


class SqliteHeads:
    def __init__(self, db: Database) -> None:
        self._db = db

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        with self._db.read() as c:
            blobs = c.execute(_LOAD, (json.dumps([str(subject) for subject in subjects]),)).fetchall()
        stored = {head.subject: head for head in (unpack(Head, blob) for (blob,) in blobs)}
        return {subject: stored.get(subject) or Head.fresh(subject) for subject in subjects}

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        with self._db.write() as c:
            return [_swap(c, head) for head in heads]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        with self._db.read() as c:
            return [Subject.parse(subject) for (subject,) in c.execute(_UNPUBLISHED, (limit,))]


def _swap(c: sqlite3.Connection, head: Head) -> bool:
    subject = str(head.subject)
    row = (head.version, head.nonce, head.published, pack(head), subject)
    swapped = c.execute(_FIRST, row) if head.version == 1 else c.execute(_NEXT, (*row, head.version))
    if swapped.rowcount == 1:
        return True
    # Our own swap, whose answer was lost: nobody else makes this nonce.
    return c.execute(_STORED, (subject, head.version, head.nonce)).fetchone() is not None
