"""Stores member sets, follower counts and active-set entries.

The sets of one owner and shard group are in one partition. All partitions are queried concurrently.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby

import numpy as np

from notifier.adapters.cassandra.driver.batching import Row, batches, put_batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import shard_group_of
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import CassandraDirectory
from notifier.domain.audience.activity import FOREVER, hour_of
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
from notifier.domain.audience.tiers_and_member_sets import ACCOUNT_WIDE_SETS, SUBJECT_SETS, SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ActiveSetEntry, ShardBitmap
from notifier.ports.leases_queues_throttles_clock import Clock

BUFFERED_BITMAPS = 256
"""Bitmaps in memory at a time: about 4 MB."""

COUNT_TYPE = np.dtype("<u4")
"""Stored type of a shard's follower count."""

_ACCOUNT_WIDE = ""
"""Value of `owner` in the rows of the account-wide sets. Other rows have a subject."""

_SELECT_SETS = (
    "SELECT shard, kind, blob FROM member_sets WHERE owner = ? AND shard_group = ? AND shard IN ? AND kind IN ?"
)
_SELECT_COUNTS = "SELECT total, by_shard FROM follower_counts WHERE subject = ?"
_PUT_SET = "INSERT INTO member_sets (owner, shard_group, shard, kind, blob) VALUES (?, ?, ?, ?, ?)"
_PUT_COUNTS = "INSERT INTO follower_counts (subject, total, by_shard) VALUES (?, ?, ?)"
_PUT_SET_FENCED = f"{_PUT_SET} USING TIMESTAMP ?"
_PUT_COUNTS_FENCED = f"{_PUT_COUNTS} USING TIMESTAMP ?"

_ALERT_SET_KINDS = [SetKind.WITH_DEVICE, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN]

OwnerKinds = tuple[str, list[SetKind]]


class CassandraMemberSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._directory = CassandraDirectory(cluster)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        # Query all sets concurrently. Each query waits in the node's queue behind the inbox rows that are being
        # written. Queries in succession would add up these waits.
        stored = self._read(_sets_to_read(subject, restricted_to), shards)
        return [self._shard_sets(subject, shard, stored, restricted_to) for shard in shards]

    def _shard_sets(
        self,
        subject: Subject,
        shard: int,
        stored: Mapping[tuple[str, int], dict[SetKind, Bits]],
        restricted_to: UserId | None,
    ) -> ShardSets:
        account_wide = stored[_ACCOUNT_WIDE, shard]
        if subject.kind is Kind.SELF:
            sets = self._personal_sets(subject.owner, shard, account_wide)
        else:
            sets = stored[str(subject), shard] | account_wide
        if restricted_to is None:
            return ShardSets(sets=sets)
        author_sets = stored[str(Subject(Kind.MENTION, restricted_to)), shard]
        return ShardSets(sets=sets, mentioner_followers=author_sets.get(SetKind.FOLLOWERS, no_members()))

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        owner_key = str(owner or _ACCOUNT_WIDE)
        stored = self._read([(owner_key, [kind])], shards)
        return {shard: sets[kind] for shard in shards if kind in (sets := stored[owner_key, shard])}

    def _read(
        self, owner_kinds: Iterable[OwnerKinds], shards: Sequence[int]
    ) -> Mapping[tuple[str, int], dict[SetKind, Bits]]:
        """Return the stored sets by owner and shard, with an empty dict for every other key."""
        groups = [(shard_group, list(group)) for shard_group, group in groupby(sorted(set(shards)), shard_group_of)]
        queries = [(owner, shard_group, group, kinds) for owner, kinds in owner_kinds for shard_group, group in groups]
        sets: dict[tuple[str, int], dict[SetKind, Bits]] = defaultdict(dict)
        for (owner, *_), rows in zip(queries, self._cluster.query_each(_SELECT_SETS, queries), strict=True):
            for row in rows:
                sets[owner, row.shard][SetKind(row.kind)] = decode(row.blob)
        return sets

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        if subject.kind is Kind.SELF:
            return _personal_counts(self._member(subject.owner))
        rows = self._cluster.query(_SELECT_COUNTS, (str(subject),))
        if not rows:
            return NO_FOLLOWERS
        return FollowerCounts(total=rows[0].total, by_shard=np.frombuffer(rows[0].by_shard, COUNT_TYPE).tolist())

    def put(self, bitmaps: Iterable[ShardBitmap], token: FencingToken | None = None) -> None:
        # One set per statement. A set has up to 16 KiB, and a node warns about a batch above 5 KiB.
        for batch in batches(bitmaps, BUFFERED_BITMAPS):
            rows = [
                (str(b.owner or _ACCOUNT_WIDE), shard_group_of(b.shard), b.shard, str(b.kind), encode(b.bits))
                for b in batch
            ]
            put_batches(self._cluster, [_fenced(_PUT_SET, row, token) for row in rows])

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        rows = [
            (str(subject), subject_counts.total, np.array(subject_counts.by_shard, dtype=COUNT_TYPE).tobytes())
            for subject, subject_counts in counts.items()
        ]
        put_batches(self._cluster, [_fenced(_PUT_COUNTS, row, token) for row in rows])

    def _personal_sets(self, user: UserId, shard: int, account_wide: dict[SetKind, Bits]) -> dict[SetKind, Bits]:
        """Return the sets of a user's own subject (kind `self`). The user is its only follower.

        Of the account-wide sets only those for alerts apply to the user.
        """
        member = self._member(user)
        if member is None or shard_of(member) != shard:
            return {}
        user_bit = from_offsets([member % SHARD_MEMBERS])
        return {
            SetKind.FOLLOWERS: user_bit,
            **{kind: account_wide.get(kind, no_members()) for kind in _ALERT_SET_KINDS},
        }

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member


def _sets_to_read(subject: Subject, restricted_to: UserId | None) -> list[OwnerKinds]:
    """Return the sets to read. For a subject of kind `self`, the account-wide sets are only those for alerts."""
    owner_kinds: list[OwnerKinds] = [(_ACCOUNT_WIDE, _ALERT_SET_KINDS)]
    if subject.kind is not Kind.SELF:
        owner_kinds = [(str(subject), list(SUBJECT_SETS)), (_ACCOUNT_WIDE, list(ACCOUNT_WIDE_SETS))]
    if restricted_to is not None:
        owner_kinds.append((str(Subject(Kind.MENTION, restricted_to)), [SetKind.FOLLOWERS]))
    return owner_kinds


def _fenced(put: str, row: Row, token: FencingToken | None) -> tuple[str, Row]:
    """Return the statement and its parameters, with the fencing token as write timestamp.

    Without a token the write timestamp is the current time, which is below every token.
    """
    if token is None:
        return put, row
    return (_PUT_SET_FENCED if put is _PUT_SET else _PUT_COUNTS_FENCED), (*row, token)


def _personal_counts(member: Member | None) -> FollowerCounts:
    if member is None:
        return NO_FOLLOWERS
    return FollowerCounts(total=1, by_shard=(*([0] * shard_of(member)), 1))


# Active sets: a partition per set and shard, with a row for each hour at which entries expire.

KEPT_AFTER_EXPIRY = timedelta(days=2)
"""How long a row stays after its hour. A process whose clock was set back still needs the row, and a node whose clock
is ahead must not remove the row too early."""
NO_TTL = 0

_SELECT_ACTIVE = "SELECT blob FROM active_set_entries WHERE shard = ? AND kind = ? AND last_hour >= ?"
_SELECT_EXPIRING = "SELECT blob FROM active_set_entries WHERE shard = ? AND kind = ? AND last_hour = ?"
_PUT_ACTIVE_SET = "INSERT INTO active_set_entries (shard, kind, last_hour, blob) VALUES (?, ?, ?, ?) USING TTL ?"
_PUT_ACTIVE_SET_FENCED = f"{_PUT_ACTIVE_SET} AND TIMESTAMP ?"


class CassandraActiveSets:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_SELECT_ACTIVE, kind, hour, shards)

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_SELECT_EXPIRING, kind, hour, shards)

    def _read(self, statement: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        results = self._cluster.query_each(statement, [(shard, str(kind), hour) for shard in shards])
        return union_by_shard(
            (shard, decode(row.blob)) for shard, rows in zip(shards, results, strict=True) for row in rows
        )

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        for batch in batches(entries, BUFFERED_BITMAPS):
            put_batches(self._cluster, [self._insert(entry, token) for entry in batch])

    def _insert(self, entry: ActiveSetEntry, token: FencingToken | None) -> tuple[str, Row]:
        row = entry.shard, str(entry.kind), entry.last_hour, encode(entry.bits), self._ttl(entry.last_hour)
        return (_PUT_ACTIVE_SET, row) if token is None else (_PUT_ACTIVE_SET_FENCED, (*row, token))

    def _ttl(self, last_hour: int) -> int:
        """Return the TTL in seconds, at least 1 for an entry that expires: with 0 it would never expire."""
        if last_hour == FOREVER:
            return NO_TTL
        remaining = timedelta(hours=last_hour + 1 - hour_of(self._clock.now())) + KEPT_AFTER_EXPIRY
        return max(1, int(remaining.total_seconds()))

    def delete_expired(self, hour: int) -> None:
        """Do nothing: rows expire by TTL."""
