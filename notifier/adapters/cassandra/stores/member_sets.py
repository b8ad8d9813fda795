"""Stores member sets and active-set entries.

The sets for audience snapshots of eight shards are in two partitions, which are queried concurrently.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby

import numpy as np

from notifier.adapters.cassandra.driver.batching import Row, batches, put_messages
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import shard_group_of
from notifier.adapters.cassandra.stores.directory import CassandraDirectory
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
from notifier.domain.audience.tiers import ACCOUNT_WIDE_SETS, SUBJECT_SETS, SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ActiveSetEntry, ShardBlob
from notifier.ports.coordination import Clock

BLOBS = 256
"""Bitmaps buffered at a time: 4 MB, so that an import of any size needs little memory."""

COUNT = np.dtype("<u4")

_ACCOUNT_WIDE = ""

_LIVE = "SELECT shard, kind, blob FROM member_sets WHERE owner = ? AND shard_group = ? AND shard IN ? AND kind IN ?"
_COUNTS = "SELECT total, by_shard FROM follower_counts WHERE subject = ?"
_PUT = "INSERT INTO member_sets (owner, shard_group, shard, kind, blob) VALUES (?, ?, ?, ?, ?)"
_PUT_COUNTS = "INSERT INTO follower_counts (subject, total, by_shard) VALUES (?, ?, ?)"
_PUT_FENCED = f"{_PUT} USING TIMESTAMP ?"
_PUT_COUNTS_FENCED = f"{_PUT_COUNTS} USING TIMESTAMP ?"

_PHONES = [SetKind.PUSH, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN]

Wanted = tuple[str, list[SetKind]]
"""An owner, and the kinds of its sets to read."""


class CassandraMemberSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._directory = CassandraDirectory(cluster)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        # Query everything concurrently: while rows are in flight, each query waits in the node's queue.
        wanted = _wanted(subject, restricted_to)
        stored = self._read(wanted, shards)
        read = [[stored[owner, shard] for owner, _ in wanted] for shard in shards]
        return [self._shard_sets(subject, shard, sets, restricted_to) for shard, sets in zip(shards, read, strict=True)]

    def _shard_sets(
        self, subject: Subject, shard: int, read: list[dict[SetKind, Bits]], restricted_to: UserId | None
    ) -> ShardSets:
        followers = None if restricted_to is None else read.pop().get(SetKind.FOLLOWERS, no_members())
        own = subject.kind is Kind.SELF
        sets = self._personal_sets(subject.owner, shard, read[0]) if own else read[0] | read[1]
        return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        owner_key = str(owner or _ACCOUNT_WIDE)
        stored = self._read([(owner_key, [kind])], shards)
        return {shard: sets[kind] for shard in shards if kind in (sets := stored[owner_key, shard])}

    def _read(self, wanted: Iterable[Wanted], shards: Sequence[int]) -> Mapping[tuple[str, int], dict[SetKind, Bits]]:
        """Return the sets by owner and shard. An entry is empty if nothing is stored."""
        groups = [(number, list(group)) for number, group in groupby(sorted(set(shards)), shard_group_of)]
        queries = [(owner, number, group, kinds) for owner, kinds in wanted for number, group in groups]
        sets: dict[tuple[str, int], dict[SetKind, Bits]] = defaultdict(dict)
        for (owner, *_), rows in zip(queries, self._cluster.query_each(_LIVE, queries), strict=True):
            for row in rows:
                sets[owner, row.shard][SetKind(row.kind)] = decode(row.blob)
        return sets

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        if subject.kind is Kind.SELF:
            return _personal_counts(self._member(subject.owner))
        rows = self._cluster.query(_COUNTS, (str(subject),))
        if not rows:
            return NO_FOLLOWERS
        return FollowerCounts(total=rows[0].total, by_shard=np.frombuffer(rows[0].by_shard, COUNT).tolist())

    def put(self, blobs: Iterable[ShardBlob], token: FencingToken | None = None) -> None:
        # One set per message: at up to 16 KiB each, batches would exceed the size that the server recommends.
        for batch in batches(blobs, BLOBS):
            rows = [
                (str(b.owner or _ACCOUNT_WIDE), shard_group_of(b.shard), b.shard, str(b.kind), encode(b.bits))
                for b in batch
            ]
            put_messages(self._cluster, [_fenced(_PUT, row, token) for row in rows])

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        rows = [(str(s), h.total, np.array(h.by_shard, dtype=COUNT).tobytes()) for s, h in counts.items()]
        put_messages(self._cluster, [_fenced(_PUT_COUNTS, row, token) for row in rows])

    def _personal_sets(self, owner: UserId, shard: int, account_wide: dict[SetKind, Bits]) -> dict[SetKind, Bits]:
        """Return the sets of a personal subject. Its owner follows it, and the rules for followers don't apply."""
        member = self._member(owner)
        if member is None or shard_of(member) != shard:
            return {}
        own = from_offsets([member % SHARD_MEMBERS])
        return {SetKind.FOLLOWERS: own, **{kind: account_wide.get(kind, no_members()) for kind in _PHONES}}

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member


def _wanted(subject: Subject, restricted_to: UserId | None) -> list[Wanted]:
    """Return the sets to read: the subject's, the shared ones, and the author's followers if the burst is restricted.

    A personal subject needs only the shared ones.
    """
    wanted: list[Wanted] = [(_ACCOUNT_WIDE, _PHONES)]
    if subject.kind is not Kind.SELF:
        wanted = [(str(subject), list(SUBJECT_SETS)), (_ACCOUNT_WIDE, list(ACCOUNT_WIDE_SETS))]
    if restricted_to is not None:
        wanted.append((str(Subject(Kind.MENTION, restricted_to)), [SetKind.FOLLOWERS]))
    return wanted


def _fenced(put: str, row: Row, token: FencingToken | None) -> tuple[str, Row]:
    """Add the fencing token as write timestamp.

    Without one the driver's timestamp applies, which is below every token.
    """
    if token is None:
        return put, row
    return (_PUT_FENCED if put is _PUT else _PUT_COUNTS_FENCED), (*row, token)


def _personal_counts(member: Member | None) -> FollowerCounts:
    if member is None:
        return NO_FOLLOWERS
    return FollowerCounts(total=1, by_shard=(*([0] * shard_of(member)), 1))


# Active sets: a partition per set and shard, with a row per expiry hour. A row expires by its TTL.

BITMAPS = 256
"""Bitmaps buffered at a time, as for the member sets: 4 MB."""
KEPT_AFTER_EXPIRY = timedelta(days=2)
"""Life beyond the expiry hour: a clock that was set back finds the row again, and the node counts by its own clock."""
NO_TTL = 0

_READ_CURRENT = "SELECT blob FROM active_set_entries WHERE shard = ? AND kind = ? AND last_hour >= ?"
_UNTIL = "SELECT blob FROM active_set_entries WHERE shard = ? AND kind = ? AND last_hour = ?"
_PUT_ACTIVE_SET = "INSERT INTO active_set_entries (shard, kind, last_hour, blob) VALUES (?, ?, ?, ?) USING TTL ?"
_PUT_ACTIVE_SET_FENCED = f"{_PUT_ACTIVE_SET} AND TIMESTAMP ?"


class CassandraActiveSets:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_READ_CURRENT, kind, hour, shards)

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_UNTIL, kind, hour, shards)

    def _read(self, statement: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        answers = self._cluster.query_each(statement, [(shard, str(kind), hour) for shard in shards])
        return union_by_shard(
            (shard, decode(r.blob)) for shard, rows in zip(shards, answers, strict=True) for r in rows
        )

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        # One bitmap per message, as for the member sets.
        for batch in batches(entries, BITMAPS):
            put_messages(self._cluster, [self._put(entry, token) for entry in batch])

    def _put(self, entry: ActiveSetEntry, token: FencingToken | None) -> tuple[str, Row]:
        row = entry.shard, str(entry.kind), entry.last_hour, encode(entry.bits), self._ttl(entry.last_hour)
        return (_PUT_ACTIVE_SET, row) if token is None else (_PUT_ACTIVE_SET_FENCED, (*row, token))

    def _ttl(self, last_hour: int) -> int:
        """Return the TTL in seconds. It is 1 for an entry that expired long ago, because 0 means forever."""
        if last_hour == FOREVER:
            return NO_TTL
        remaining = timedelta(hours=last_hour + 1 - hour_of(self._clock.now())) + KEPT_AFTER_EXPIRY
        return max(1, int(remaining.total_seconds()))

    def delete_expired(self, hour: int) -> None:
        """Do nothing: each row expires by its TTL."""
