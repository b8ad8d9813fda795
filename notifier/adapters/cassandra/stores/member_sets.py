"""The member sets: what sealing reads of eight shards is two partitions, asked for side by side."""

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
"""That are waited for: 4 MB, so that an import of any size needs little memory."""

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
"""An owner, and which of its sets."""


class CassandraMemberSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._directory = CassandraDirectory(cluster)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        # All side by side: beside rows on their way, each question waits in the node's line.
        wanted = _wanted(subject, restricted_to)
        found = self._read(wanted, shards)
        read = [[found[owner, shard] for owner, _ in wanted] for shard in shards]
        return [self._told(subject, shard, some, restricted_to) for shard, some in zip(shards, read, strict=True)]

    def _told(
        self, subject: Subject, shard: int, read: list[dict[SetKind, Bits]], restricted_to: UserId | None
    ) -> ShardSets:
        followers = None if restricted_to is None else read.pop().get(SetKind.FOLLOWERS, nobody())
        own = subject.kind is Kind.SELF
        sets = self._of_one(subject.owner, shard, read[0]) if own else read[0] | read[1]
        return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        of = str(owner or _EVERYBODY)
        found = self._read([(of, [kind])], shards)
        return {shard: sets[kind] for shard in shards if kind in (sets := found[of, shard])}

    def _read(self, wanted: Iterable[Wanted], shards: Sequence[int]) -> Mapping[tuple[str, int], dict[SetKind, Bits]]:
        """By owner and shard; empty where nothing is stored."""
        runs = [(run, list(some)) for run, some in groupby(sorted(set(shards)), neighbours_of)]
        asked = [(owner, run, some, kinds) for owner, kinds in wanted for run, some in runs]
        found: dict[tuple[str, int], dict[SetKind, Bits]] = defaultdict(dict)
        for (owner, *_), rows in zip(asked, self._cluster.ask_each(_LIVE, asked), strict=True):
            for row in rows:
                found[owner, row.shard][SetKind(row.kind)] = decode(row.blob)
        return found

    def head(self, subject: Subject) -> SetHead:
        if subject.kind is Kind.SELF:
            return _head_of_one(self._member(subject.owner))
        rows = self._cluster.ask(_HEAD, (str(subject),))
        if not rows:
            return NO_FOLLOWERS
        return SetHead(total=rows[0].total, counts=np.frombuffer(rows[0].counts, COUNT).tolist())

    def put(self, blobs: Iterable[ShardBlob], stamp: Stamp | None = None) -> None:
        # One by one: at up to 16 KiB, messages of several would be too long for the server's taste.
        for some in batches(blobs, BLOBS):
            rows = [
                (str(b.owner or _EVERYBODY), neighbours_of(b.shard), b.shard, str(b.kind), encode(b.bits)) for b in some
            ]
            put_all(self._cluster, [_stamped(_PUT, row, stamp) for row in rows])

    def put_heads(self, heads: Mapping[Subject, SetHead], stamp: Stamp | None = None) -> None:
        rows = [(str(s), h.total, np.array(h.counts, dtype=COUNT).tobytes()) for s, h in heads.items()]
        put_all(self._cluster, [_stamped(_PUT_HEAD, row, stamp) for row in rows])

    def _of_one(self, owner: UserId, shard: int, everybody: dict[SetKind, Bits]) -> dict[SetKind, Bits]:
        """The sets of a personal subject: its owner follows it, and no rule of the followers' applies."""
        member = self._member(owner)
        if member is None or shard_of(member) != shard:
            return {}
        own = from_offsets([member % SHARD_MEMBERS])
        return {SetKind.FOLLOWERS: own, **{kind: everybody.get(kind, nobody()) for kind in _PHONES}}

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member


def _wanted(subject: Subject, restricted_to: UserId | None) -> list[Wanted]:
    """Two owners', and the author's where it is restricted; everybody's alone for a personal subject."""
    found: list[Wanted] = [(_EVERYBODY, _PHONES)]
    if subject.kind is not Kind.SELF:
        found = [(str(subject), list(OF_A_SUBJECT)), (_EVERYBODY, list(OF_EVERYBODY))]
    if restricted_to is not None:
        found.append((str(Subject(Kind.MENTION, restricted_to)), [SetKind.FOLLOWERS]))
    return found


def _stamped(put: str, row: Row, stamp: Stamp | None) -> tuple[str, Row]:
    """Its write timestamp; without one it is the driver's, which is before every stamp."""
    if stamp is None:
        return put, row
    return (_PUT_STAMPED if put is _PUT else _PUT_HEAD_STAMPED), (*row, stamp)


def _head_of_one(member: Member | None) -> SetHead:
    if member is None:
        return NO_FOLLOWERS
    return SetHead(total=1, counts=(*([0] * shard_of(member)), 1))


# The stays: a partition for each set of a shard, with a row for each last hour, which ends by its TTL.

BITMAPS = 256
"""That are waited for, as of the sets: 4 MB."""
KEPT_BEYOND = timedelta(days=2)
"""The end of a stay: a clock that was set back finds it again, and the node counts by its own."""
NO_TTL = 0

_STANDING = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until >= ?"
_UNTIL = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until = ?"
_PUT_stays = "INSERT INTO stays (shard, kind, until, blob) VALUES (?, ?, ?, ?) USING TTL ?"
_PUT_STAMPED_stays = f"{_PUT_stays} AND TIMESTAMP ?"


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
        # One by one, as the sets: messages of several would be too long for the server's taste.
        for some in batches(stays, BITMAPS):
            put_all(self._cluster, [self._put(stay, stamp) for stay in some])

    def _put(self, stay: Stay, stamp: Stamp | None) -> tuple[str, Row]:
        row = stay.shard, str(stay.kind), stay.until, encode(stay.bits), self._ttl(stay.until)
        return (_PUT_stays, row) if stamp is None else (_PUT_STAMPED_stays, (*row, stamp))

    def _ttl(self, until: int) -> int:
        """Of one that ended long ago, a second: 0 would be for ever."""
        if until == FOREVER:
            return NO_TTL
        left = timedelta(hours=until + 1 - hour_of(self._clock.now())) + KEPT_BEYOND
        return max(1, int(left.total_seconds()))

    def forget(self, hour: int) -> None:
        """Each row ends by itself."""
