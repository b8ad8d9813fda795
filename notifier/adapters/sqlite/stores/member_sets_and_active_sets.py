"""Stores member sets and active-set entries in core.db."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from notifier.adapters.sqlite.connections_and_transactions import Database, batches
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import accounts_of
from notifier.domain.audience.bitmap import (
    SHARD_MEMBERS,
    Bits,
    decode,
    encode,
    from_offsets,
    no_members,
    shard_of,
    union_by_shard,
)
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ActiveSetEntry, ShardBitmap

BITMAPS_PER_TRANSACTION = 256
"""At most 4 MB per transaction."""

STORED_COUNT_TYPE = np.dtype("<u4")

_ACCOUNT_WIDE_OWNER = ""
_KINDS_BY_NAME = {str(kind): kind for kind in SetKind}

_SELECT_SETS_OF_SUBJECT = load_statement("read_member_sets")
_SELECT_SET = "SELECT blob FROM member_sets WHERE owner = ? AND shard = ? AND kind = ?"
_SELECT_SETS = """
    SELECT shard, blob FROM member_sets
    WHERE owner = ? AND kind = ? AND shard IN (SELECT value FROM json_each(?))
"""
_SELECT_COUNTS = "SELECT total, by_shard FROM follower_counts WHERE subject = ?"
_PUT_SET = load_statement("put_member_set")
_PUT_COUNTS = load_statement("put_follower_counts")


class SqliteMemberSets:
    def __init__(self, db: Database) -> None:
        self._db = db

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        return [self._shard_sets(subject, shard, restricted_to) for shard in shards]

    def _shard_sets(self, subject: Subject, shard: int, restricted_to: UserId | None) -> ShardSets:
        with self._db.read() as c:
            if subject.kind is Kind.SELF:
                sets = _personal_sets(c, subject.owner, shard)
            else:
                sets = {
                    _KINDS_BY_NAME[kind]: decode(blob)
                    for kind, blob in c.execute(_SELECT_SETS_OF_SUBJECT, (str(subject), shard))
                }
            if restricted_to is None:
                return ShardSets(sets=sets)
            followers = _read_set(c, str(Subject(Kind.MENTION, restricted_to)), shard, SetKind.FOLLOWERS)
            return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._db.read() as c:
            parameters = (str(owner or _ACCOUNT_WIDE_OWNER), str(kind), json.dumps(list(shards)))
            return {shard: decode(blob) for shard, blob in c.execute(_SELECT_SETS, parameters)}

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        with self._db.read() as c:
            if subject.kind is Kind.SELF:
                return _personal_counts(_member(c, subject.owner))
            row = c.execute(_SELECT_COUNTS, (str(subject),)).fetchone()
        if row is None:
            return NO_FOLLOWERS
        total, by_shard = row
        return FollowerCounts(total=total, by_shard=np.frombuffer(by_shard, STORED_COUNT_TYPE).tolist())

    def put(self, bitmaps: Iterable[ShardBitmap], token: FencingToken | None = None) -> None:
        stored_token = token or 0
        rows = (
            (str(b.owner or _ACCOUNT_WIDE_OWNER), b.shard, str(b.kind), encode(b.bits), stored_token) for b in bitmaps
        )
        self._put(_PUT_SET, rows)

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        stored_token = token or 0
        rows = (
            (
                str(subject),
                subject_counts.total,
                np.array(subject_counts.by_shard, dtype=STORED_COUNT_TYPE).tobytes(),
                stored_token,
            )
            for subject, subject_counts in counts.items()
        )
        self._put(_PUT_COUNTS, rows)

    def _put(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        for batch in batches(rows, BITMAPS_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(sql, batch)


def _read_set(c: sqlite3.Connection, owner: str, shard: int, kind: SetKind) -> Bits:
    row = c.execute(_SELECT_SET, (owner, shard, str(kind))).fetchone()
    return decode(row[0]) if row else no_members()


def _personal_sets(c: sqlite3.Connection, user: UserId, shard: int) -> dict[SetKind, Bits]:
    """Return the sets of a user's own subject (kind `self`), whose only follower is the user.

    Of the account-wide sets only those for alerts apply to this subject.
    """
    member = _member(c, user)
    if member is None or shard_of(member) != shard:
        return {}
    user_bit = from_offsets([member % SHARD_MEMBERS])
    alert_sets = {
        kind: _read_set(c, _ACCOUNT_WIDE_OWNER, shard, kind)
        for kind in (SetKind.WITH_DEVICE, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN)
    }
    return {SetKind.FOLLOWERS: user_bit, **alert_sets}


def _member(c: sqlite3.Connection, user: UserId) -> Member | None:
    account = accounts_of(c, [user]).get(user)
    return None if account is None or account.deleted else account.member


def _personal_counts(member: Member | None) -> FollowerCounts:
    if member is None:
        return NO_FOLLOWERS
    return FollowerCounts(total=1, by_shard=(*([0] * shard_of(member)), 1))


# Active sets in core.db: a bitmap for each set, shard and expiry hour.

ENTRIES_PER_TRANSACTION = 256
"""At most 4 MB per transaction."""

_FROM_SHARDS = "FROM active_set_entries WHERE kind = ? AND shard IN (SELECT value FROM json_each(?))"
_SELECT_ACTIVE = f"SELECT shard, blob {_FROM_SHARDS} AND last_hour >= ?"
_SELECT_EXPIRING = f"SELECT shard, blob {_FROM_SHARDS} AND last_hour = ?"
_PUT_ACTIVE_SET = load_statement("put_active_set_entry")
_DELETE_EXPIRED = "DELETE FROM active_set_entries WHERE last_hour < ?"


class SqliteActiveSets:
    def __init__(self, db: Database) -> None:
        self._db = db

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_SELECT_ACTIVE, kind, hour, shards)

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_SELECT_EXPIRING, kind, hour, shards)

    def _read(self, sql: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        with self._db.read() as c:
            rows = c.execute(sql, (str(kind), json.dumps(list(shards)), hour))
            return union_by_shard((shard, decode(blob)) for shard, blob in rows)

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        for batch in batches(
            ((str(e.kind), e.shard, e.last_hour, encode(e.bits), token or 0) for e in entries), ENTRIES_PER_TRANSACTION
        ):
            with self._db.write() as c:
                c.executemany(_PUT_ACTIVE_SET, batch)

    def delete_expired(self, hour: int) -> None:
        with self._db.write() as c:
            c.execute(_DELETE_EXPIRED, (hour,))
