"""The stays in core.db: a bitmap for each set, shard and last hour."""

import json
from collections.abc import Iterable, Mapping, Sequence

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.domain.audience.bitmap import Bits, decode, encode, joined
from notifier.domain.audience.tiers import SetKind
from notifier.domain.fencing import Stamp
from notifier.ports.audience import Stay

BATCH = 256
"""Bitmaps in a transaction, as of the sets: 4 MB at most, and others get their turn."""

_OF_SHARDS = "FROM stays WHERE kind = ? AND shard IN (SELECT value FROM json_each(?))"
_STANDING = f"SELECT shard, blob {_OF_SHARDS} AND until >= ?"
_UNTIL = f"SELECT shard, blob {_OF_SHARDS} AND until = ?"
_PUT = statement("put_stay")
_FORGET = "DELETE FROM stays WHERE until < ?"


class SqliteStays:
    def __init__(self, db: Database) -> None:
        self._db = db

    def standing(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_STANDING, kind, hour, shards)

    def until(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_UNTIL, kind, hour, shards)

    def _read(self, sql: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._db.read() as c:
            rows = c.execute(sql, (str(kind), json.dumps(list(shards)), hour))
            return joined((shard, decode(blob)) for shard, blob in rows)

    def put(self, stays: Iterable[Stay], stamp: Stamp | None = None) -> None:
        for batch in batches(((str(s.kind), s.shard, s.until, encode(s.bits), stamp or 0) for s in stays), BATCH):
            with self._db.write() as c:
                c.executemany(_PUT, batch)

    def forget(self, hour: int) -> None:
        with self._db.write() as c:
            c.execute(_FORGET, (hour,))
