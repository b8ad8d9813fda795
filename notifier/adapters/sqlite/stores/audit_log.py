"""The audit in core.db: append-only, each row's hash over the one before it, so that no row can be changed unseen."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime

from notifier.adapters.sqlite.connection import Database

PAGE = 500

_LAST = "SELECT hash FROM audit ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO audit (hash, body) VALUES (?, ?)"
_AFTER = "SELECT number, hash, CAST(body AS BLOB) FROM audit WHERE number > ? ORDER BY number LIMIT ?"


def record(c: sqlite3.Connection, *, at: datetime, who: str, what: str, detail: Mapping[str, object]) -> None:
    """In the transaction of the deed: there is no deed without its row, and no row without its deed."""
    entry = {"at": at.isoformat(), "who": who, "what": what, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    last = c.execute(_LAST).fetchone()
    c.execute(_ADD, (_chained(last[0] if last else b"", body), body))


def entries(db: Database) -> Iterator[tuple[bytes, bool]]:
    """The bodies, oldest first, each with whether it and its place are as they were written."""
    number, before = 0, b""
    while page := _page(db, number):
        for _, found, body in page:
            yield body, found == _chained(before, body)
            before = found
        number = page[-1][0]


def _page(db: Database, number: int) -> list[tuple[int, bytes, bytes]]:
    with db.read() as c:
        return c.execute(_AFTER, (number, PAGE)).fetchall()


def _chained(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()
