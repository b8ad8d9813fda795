"""Stores member sets and active-set entries in core.db.

A member set is a bitmap for each owner, shard and kind. One statement reads what an audience snapshot needs.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from notifier.adapters.sqlite.connection import Database, batches
from notifier.adapters.sqlite.files import statement
from notifier.adapters.sqlite.stores.directory import accounts_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, decode, encode, from_offsets, shard_of, union_by_shard
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ActiveSetEntry, ShardBlob

BATCH = 256
"""Bitmaps per transaction: 4 MB at most.

An import of any size then needs little memory, and other writers get their turn.
"""

COUNT = np.dtype("<u4")

_ACCOUNT_WIDE = ""
_KINDS = {str(kind): kind for kind in SetKind}

_LIVE = statement("read_member_sets")
_READ_ONE = "SELECT blob FROM member_sets WHERE owner = ? AND shard = ? AND kind = ?"
_READ = """
    SELECT shard, blob FROM member_sets
    WHERE owner = ? AND kind = ? AND shard IN (SELECT value FROM json_each(?))
"""
_COUNTS = "SELECT total, by_shard FROM follower_counts WHERE subject = ?"
_PUT = statement("put_member_set")
_PUT_COUNTS = statement("put_follower_counts")


class SqliteMemberSets:
    def __init__(self, db: Database) -> None:
        self._db = db

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        return [self._live(subject, shard, restricted_to) for shard in shards]

    def _live(self, subject: Subject, shard: int, restricted_to: UserId | None) -> ShardSets:
        with self._db.read() as c:
            if subject.kind is Kind.SELF:
                sets = _personal_sets(c, subject.owner, shard)
            else:
                sets = {_KINDS[kind]: decode(blob) for kind, blob in c.execute(_LIVE, (str(subject), shard))}
            if restricted_to is None:
                return ShardSets(sets=sets)
            followers = _read_set(c, str(Subject(Kind.MENTION, restricted_to)), shard, SetKind.FOLLOWERS)
            return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._db.read() as c:
            parameters = (str(owner or _ACCOUNT_WIDE), str(kind), json.dumps(list(shards)))
            return {shard: decode(blob) for shard, blob in c.execute(_READ, parameters)}

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        with self._db.read() as c:
            if subject.kind is Kind.SELF:
                return _personal_counts(_member(c, subject.owner))
            row = c.execute(_COUNTS, (str(subject),)).fetchone()
        return (
            NO_FOLLOWERS
            if row is None
            else FollowerCounts(total=row[0], by_shard=np.frombuffer(row[1], COUNT).tolist())
        )

    def put(self, blobs: Iterable[ShardBlob], token: FencingToken | None = None) -> None:
        at = token or 0
        self._put(_PUT, ((str(b.owner or _ACCOUNT_WIDE), b.shard, str(b.kind), encode(b.bits), at) for b in blobs))

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        at = token or 0
        self._put(
            _PUT_COUNTS, ((str(s), h.total, np.array(h.by_shard, dtype=COUNT).tobytes(), at) for s, h in counts.items())
        )

    def _put(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        for batch in batches(rows, BATCH):
            with self._db.write() as c:
                c.executemany(sql, batch)


def _read_set(c: sqlite3.Connection, owner: str, shard: int, kind: SetKind) -> Bits:
    row = c.execute(_READ_ONE, (owner, shard, str(kind))).fetchone()
    return decode(row[0] if row else b"N")


def _personal_sets(c: sqlite3.Connection, owner: UserId, shard: int) -> dict[SetKind, Bits]:
    """Return the sets of a personal subject. Its owner follows it, and the rules for followers don't apply."""
    member = _member(c, owner)
    if member is None or shard_of(member) != shard:
        return {}
    own = from_offsets([member % SHARD_MEMBERS])
    push_sets = {
        kind: _read_set(c, _ACCOUNT_WIDE, shard, kind) for kind in (SetKind.PUSH, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN)
    }
    return {SetKind.FOLLOWERS: own, **push_sets}


def _member(c: sqlite3.Connection, user: UserId) -> Member | None:
    account = accounts_of(c, [user]).get(user)
    return None if account is None or account.deleted else account.member


def _personal_counts(member: Member | None) -> FollowerCounts:
    if member is None:
        return NO_FOLLOWERS
    return FollowerCounts(total=1, by_shard=(*([0] * shard_of(member)), 1))


# Active sets in core.db: a bitmap for each set, shard and expiry hour.

ACTIVE_BATCH = 256
"""Bitmaps per transaction, as for the member sets: 4 MB at most, so that other writers get their turn."""

_OF_SHARDS = "FROM active_set_entries WHERE kind = ? AND shard IN (SELECT value FROM json_each(?))"
_READ_CURRENT = f"SELECT shard, blob {_OF_SHARDS} AND last_hour >= ?"
_UNTIL = f"SELECT shard, blob {_OF_SHARDS} AND last_hour = ?"
_PUT_ACTIVE_SET = statement("put_active_set_entry")
_DELETE_EXPIRED = "DELETE FROM active_set_entries WHERE last_hour < ?"


class SqliteActiveSets:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_READ_CURRENT, kind, hour, shards)

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_UNTIL, kind, hour, shards)

    def _read(self, sql: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._db.read() as c:
            rows = c.execute(sql, (str(kind), json.dumps(list(shards)), hour))
            return union_by_shard((shard, decode(blob)) for shard, blob in rows)

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        for batch in batches(
            ((str(s.kind), s.shard, s.last_hour, encode(s.bits), token or 0) for s in entries), ACTIVE_BATCH
        ):
            with self._db.write() as c:
                c.executemany(_PUT_ACTIVE_SET, batch)

    def delete_expired(self, hour: int) -> None:
        with self._db.write() as c:
            c.execute(_DELETE_EXPIRED, (hour,))
