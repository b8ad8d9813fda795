"""The lane tallies in core.db: each is replaced only by the version that follows the stored one."""

import json
import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime

from notifier.adapters.sqlite.audit import record
from notifier.adapters.sqlite.connection import Database
from notifier.codec import pack, unpack
from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally, resume_audit, resumed

_READ = "SELECT blob FROM lane_tallies WHERE lane IN (SELECT value FROM json_each(?))"
_PUT = "INSERT OR REPLACE INTO lane_tallies (lane, version, blob) VALUES (?, ?, ?)"


class SqliteLaneTallies:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, lanes: Collection[str]) -> Mapping[str, LaneTally]:
        with self._db.read() as c:
            return _read(c, lanes)

    def swap(self, tally: LaneTally) -> LaneTally:
        with self._db.write() as c:
            stored = _read(c, [tally.lane])[tally.lane]
            if stored.version != tally.version - 1:
                return stored
            _put(c, tally)
            return tally

    def resume(self, lane: str, who: str, reason: str, now: datetime) -> LaneStop | None:
        with self._db.write() as c:
            stored = _read(c, [lane])[lane]
            if stored.stop is None:
                return None
            _put(c, resumed(stored))
            record(c, at=now, who=who, what="lane.resume", detail=resume_audit(lane, stored.stop, reason))
            return stored.stop


def _read(c: sqlite3.Connection, lanes: Collection[str]) -> Mapping[str, LaneTally]:
    rows = c.execute(_READ, (json.dumps(list(lanes)),)).fetchall()
    stored = {tally.lane: tally for tally in (unpack(LaneTally, blob) for (blob,) in rows)}
    return {lane: stored.get(lane) or LaneTally(lane=lane) for lane in lanes}


def _put(c: sqlite3.Connection, tally: LaneTally) -> None:
    c.execute(_PUT, (tally.lane, tally.version, pack(tally)))
