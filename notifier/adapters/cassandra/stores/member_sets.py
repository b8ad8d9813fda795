"""Stores member sets and active-set entries.

The sets for audience snapshots of eight shards are in two partitions, which are queried concurrently.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby

import numpy as np

from notifier.adapters.cassandra.driver.batching import Row, batches, put_all
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import neighbours_of
from notifier.adapters.cassandra.stores.directory import CassandraDirectory
from notifier.domain.audience.activity import FOREVER, hour_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, decode, encode, from_offsets, joined, nobody, shard_of
from notifier.domain.audience.tiers import OF_A_SUBJECT, OF_EVERYBODY, SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, SetHead
from notifier.domain.fencing import Stamp
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ShardBlob, Stay
from notifier.ports.coordination import Clock

BLOBS = 256
"""Bitmaps buffered at a time: 4 MB, so that an import of any size needs little memory."""

COUNT = np.dtype("<u4")

_EVERYBODY = ""

_LIVE = "SELECT shard, kind, blob FROM member_sets WHERE owner = ? AND neighbours = ? AND shard IN ? AND kind IN ?"
_HEAD = "SELECT total, counts FROM set_heads WHERE subject = ?"
_PUT = "INSERT INTO member_sets (owner, neighbours, shard, kind, blob) VALUES (?, ?, ?, ?, ?)"
_PUT_HEAD = "INSERT INTO set_heads (subject, total, counts) VALUES (?, ?, ?)"
_PUT_STAMPED = f"{_PUT} USING TIMESTAMP ?"
_PUT_HEAD_STAMPED = f"{_PUT_HEAD} USING TIMESTAMP ?"

_PHONES = [SetKind.PUSH, SetKind.NO_PUSH, SetKind.ASKED]

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
        return [self._told(subject, shard, sets, restricted_to) for shard, sets in zip(shards, read, strict=True)]

    def _told(
        self, subject: Subject, shard: int, read: list[dict[SetKind, Bits]], restricted_to: UserId | None
    ) -> ShardSets:
        followers = None if restricted_to is None else read.pop().get(SetKind.FOLLOWERS, nobody())
        own = subject.kind is Kind.SELF
        sets = self._of_one(subject.owner, shard, read[0]) if own else read[0] | read[1]
        return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        owner_key = str(owner or _EVERYBODY)
        stored = self._read([(owner_key, [kind])], shards)
        return {shard: sets[kind] for shard in shards if kind in (sets := stored[owner_key, shard])}

    def _read(self, wanted: Iterable[Wanted], shards: Sequence[int]) -> Mapping[tuple[str, int], dict[SetKind, Bits]]:
        """Return the sets by owner and shard. An entry is empty if nothing is stored."""
        runs = [(run, list(group)) for run, group in groupby(sorted(set(shards)), neighbours_of)]
        queries = [(owner, run, group, kinds) for owner, kinds in wanted for run, group in runs]
        sets: dict[tuple[str, int], dict[SetKind, Bits]] = defaultdict(dict)
        for (owner, *_), rows in zip(queries, self._cluster.ask_each(_LIVE, queries), strict=True):
            for row in rows:
                sets[owner, row.shard][SetKind(row.kind)] = decode(row.blob)
        return sets

    def head(self, subject: Subject) -> SetHead:
        if subject.kind is Kind.SELF:
            return _head_of_one(self._member(subject.owner))
        rows = self._cluster.ask(_HEAD, (str(subject),))
        if not rows:
            return NO_FOLLOWERS
        return SetHead(total=rows[0].total, counts=np.frombuffer(rows[0].counts, COUNT).tolist())

    def put(self, blobs: Iterable[ShardBlob], stamp: Stamp | None = None) -> None:
        # One set per message: at up to 16 KiB each, batches would exceed the size that the server recommends.
        for batch in batches(blobs, BLOBS):
            rows = [
                (str(b.owner or _EVERYBODY), neighbours_of(b.shard), b.shard, str(b.kind), encode(b.bits))
                for b in batch
            ]
            put_all(self._cluster, [_stamped(_PUT, row, stamp) for row in rows])

    def put_heads(self, heads: Mapping[Subject, SetHead], stamp: Stamp | None = None) -> None:
        rows = [(str(s), h.total, np.array(h.counts, dtype=COUNT).tobytes()) for s, h in heads.items()]
        put_all(self._cluster, [_stamped(_PUT_HEAD, row, stamp) for row in rows])

    def _of_one(self, owner: UserId, shard: int, everybody: dict[SetKind, Bits]) -> dict[SetKind, Bits]:
        """Return the sets of a personal subject. Its owner follows it, and the rules for followers don't apply."""
        member = self._member(owner)
        if member is None or shard_of(member) != shard:
            return {}
        own = from_offsets([member % SHARD_MEMBERS])
        return {SetKind.FOLLOWERS: own, **{kind: everybody.get(kind, nobody()) for kind in _PHONES}}

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member


def _wanted(subject: Subject, restricted_to: UserId | None) -> list[Wanted]:
    """Return the sets to read: the subject's, the shared ones, and the author's followers if the burst is restricted.

    A personal subject needs only the shared ones.
    """
    wanted: list[Wanted] = [(_EVERYBODY, _PHONES)]
    if subject.kind is not Kind.SELF:
        wanted = [(str(subject), list(OF_A_SUBJECT)), (_EVERYBODY, list(OF_EVERYBODY))]
    if restricted_to is not None:
        wanted.append((str(Subject(Kind.MENTION, restricted_to)), [SetKind.FOLLOWERS]))
    return wanted


def _stamped(put: str, row: Row, stamp: Stamp | None) -> tuple[str, Row]:
    """Add the fencing token as write timestamp.

    Without one the driver's timestamp applies, which is below every token.
    """
    if stamp is None:
        return put, row
    return (_PUT_STAMPED if put is _PUT else _PUT_HEAD_STAMPED), (*row, stamp)


def _head_of_one(member: Member | None) -> SetHead:
    if member is None:
        return NO_FOLLOWERS
    return SetHead(total=1, counts=(*([0] * shard_of(member)), 1))


# Active sets: a partition per set and shard, with a row per expiry hour. A row expires by its TTL.

BITMAPS = 256
"""Bitmaps buffered at a time, as for the member sets: 4 MB."""
KEPT_BEYOND = timedelta(days=2)
"""Life beyond the expiry hour: a clock that was set back finds the row again, and the node counts by its own clock."""
NO_TTL = 0

_STANDING = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until >= ?"
_UNTIL = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until = ?"
_PUT_ACTIVE_SET = "INSERT INTO stays (shard, kind, until, blob) VALUES (?, ?, ?, ?) USING TTL ?"
_PUT_ACTIVE_SET_STAMPED = f"{_PUT_ACTIVE_SET} AND TIMESTAMP ?"


class CassandraStays:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def standing(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_STANDING, kind, hour, shards)

    def until(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return self._read(_UNTIL, kind, hour, shards)

    def _read(self, question: str, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        answers = self._cluster.ask_each(question, [(shard, str(kind), hour) for shard in shards])
        return joined((shard, decode(r.blob)) for shard, rows in zip(shards, answers, strict=True) for r in rows)

    def put(self, stays: Iterable[Stay], stamp: Stamp | None = None) -> None:
        # One bitmap per message, as for the member sets.
        for batch in batches(stays, BITMAPS):
            put_all(self._cluster, [self._put(stay, stamp) for stay in batch])

    def _put(self, stay: Stay, stamp: Stamp | None) -> tuple[str, Row]:
        row = stay.shard, str(stay.kind), stay.until, encode(stay.bits), self._ttl(stay.until)
        return (_PUT_ACTIVE_SET, row) if stamp is None else (_PUT_ACTIVE_SET_STAMPED, (*row, stamp))

    def _ttl(self, until: int) -> int:
        """Return the TTL in seconds. It is 1 for an entry that expired long ago, because 0 means forever."""
        if until == FOREVER:
            return NO_TTL
        remaining = timedelta(hours=until + 1 - hour_of(self._clock.now())) + KEPT_BEYOND
        return max(1, int(remaining.total_seconds()))

    def forget(self, hour: int) -> None:
        """Do nothing: each row expires by its TTL."""
