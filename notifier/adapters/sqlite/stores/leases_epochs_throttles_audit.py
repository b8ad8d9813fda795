"""Stores leases, fencing epochs, throttles and the audit log in core.db."""

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.throttle_and_backpressure import Throttle

# Audit log in core.db: append-only. Each hash covers the body and the previous hash, so that a changed row is detected.

ROWS_PER_PAGE = 500

_SELECT_LAST_HASH = "SELECT hash FROM audit ORDER BY number DESC LIMIT 1"
_INSERT_AUDIT_ROW = "INSERT INTO audit (hash, body) VALUES (?, ?)"
_SELECT_AUDIT_ROWS_AFTER = "SELECT number, hash, CAST(body AS BLOB) FROM audit WHERE number > ? ORDER BY number LIMIT ?"


def append_to_audit(
    c: sqlite3.Connection, *, at: datetime, operator: str, action: str, detail: Mapping[str, object]
) -> None:
    """Append an audit row. Call this in the transaction of the operation."""
    entry = {"at": at.isoformat(), "operator": operator, "action": action, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    last = c.execute(_SELECT_LAST_HASH).fetchone()
    c.execute(_INSERT_AUDIT_ROW, (_chain_hash(last[0] if last else b"", body), body))


def audit_entries(db: Database) -> Iterator[tuple[bytes, bool]]:
    """Yield the body of each row, oldest first, and whether its content and position are unchanged."""
    number, previous_hash = 0, b""
    while page := _read_page(db, number):
        for _, stored_hash, body in page:
            yield body, stored_hash == _chain_hash(previous_hash, body)
            previous_hash = stored_hash
        number = page[-1][0]


def _read_page(db: Database, after_number: int) -> list[tuple[int, bytes, bytes]]:
    with db.read() as c:
        return c.execute(_SELECT_AUDIT_ROWS_AFTER, (after_number, ROWS_PER_PAGE)).fetchall()


def _chain_hash(previous_hash: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous_hash + body).digest()


_ACQUIRE_LEASE = load_statement("acquire_lease")


class SqliteLeases:
    def __init__(self, db: Database) -> None:
        self._db = db

    def acquire(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        lease = {"name": name, "owner": owner, "now": to_ms(now), "until": to_ms(now + term)}
        with self._db.write() as c:
            return c.execute(_ACQUIRE_LEASE, lease).rowcount == 1


# Fencing epochs in core.db: the next free number of each name, in the table of counters.

_TAKE_NEXT_NUMBER = """
    INSERT INTO counters (name, next_number) VALUES (?, 1)
    ON CONFLICT (name) DO UPDATE SET next_number = next_number + 1
    RETURNING next_number - 1
"""


class SqliteEpochs:
    def __init__(self, db: Database) -> None:
        self._db = db

    def begin(self, name: str) -> int:
        with self._db.write() as c:
            [[epoch]] = c.execute(_TAKE_NEXT_NUMBER, (f"epoch of {name}",)).fetchall()
            return int(epoch)


# Throttles in core.db: each change and its audit row are one transaction.

_COLUMNS = "id, tier, rate, reason, operator, starts_at, ends_at"
_PUT_THROTTLE = f"INSERT OR REPLACE INTO throttles ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_LIFT_THROTTLE = f"UPDATE throttles SET ends_at = ? WHERE id = ? AND ends_at > ? RETURNING {_COLUMNS}"
_SELECT_THROTTLES_ENDING_AFTER = f"SELECT {_COLUMNS} FROM throttles WHERE ends_at > ? ORDER BY starts_at, id"


class SqliteThrottles:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, throttle: Throttle) -> None:
        with self._db.write() as c:
            c.execute(_PUT_THROTTLE, _row(throttle))
            detail = {"throttle": _audit_detail(throttle)}
            append_to_audit(c, at=throttle.starts_at, operator=throttle.operator, action="throttle.put", detail=detail)

    def lift(self, id: str, operator: str, now: datetime) -> Throttle | None:
        with self._db.write() as c:
            rows = c.execute(_LIFT_THROTTLE, (to_ms(now), id, to_ms(now))).fetchall()
            if not rows:
                return None
            lifted = _throttle(rows[0])
            append_to_audit(
                c, at=now, operator=operator, action="throttle.lift", detail={"throttle": _audit_detail(lifted)}
            )
            return lifted

    def ending_after(self, moment: datetime) -> Sequence[Throttle]:
        with self._db.read() as c:
            return [_throttle(row) for row in c.execute(_SELECT_THROTTLES_ENDING_AFTER, (to_ms(moment),))]


def _row(t: Throttle) -> tuple[object, ...]:
    return t.id, str(t.tier), t.rate, t.reason, t.operator, to_ms(t.starts_at), to_ms(t.ends_at)


def _throttle(row: tuple[str, str, float | None, str, str, int, int]) -> Throttle:
    id, tier, rate, reason, operator, starts_at, ends_at = row
    return Throttle(
        id=id,
        tier=Tier(tier),
        rate=rate,
        reason=reason,
        operator=operator,
        starts_at=from_ms(starts_at),
        ends_at=from_ms(ends_at),
    )


def _audit_detail(throttle: Throttle) -> dict[str, object]:
    fields = dataclasses.asdict(throttle)
    return fields | {"starts_at": throttle.starts_at.isoformat(), "ends_at": throttle.ends_at.isoformat()}
