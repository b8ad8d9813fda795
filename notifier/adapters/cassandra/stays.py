"""The stays: a partition for each set of a shard, with a row for each last hour, which ends by its TTL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row, batches
from notifier.adapters.cassandra.twofold import put_all
from notifier.domain.audience.activity import FOREVER, hour_of
from notifier.domain.audience.bitmap import Bits, decode, encode, joined
from notifier.domain.audience.tiers import SetKind
from notifier.domain.fencing import Stamp
from notifier.ports.audience import Stay
from notifier.ports.clock import Clock

BITMAPS = 256
"""That are waited for, as of the sets: 4 MB."""
KEPT_BEYOND = timedelta(days=2)
"""The end of a stay: a clock that was set back finds it again, and the node counts by its own."""
NO_TTL = 0

_STANDING = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until >= ?"
_UNTIL = "SELECT blob FROM stays WHERE shard = ? AND kind = ? AND until = ?"
_PUT = "INSERT INTO stays (shard, kind, until, blob) VALUES (?, ?, ?, ?) USING TTL ?"
_PUT_STAMPED = f"{_PUT} AND TIMESTAMP ?"


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
        return (_PUT, row) if stamp is None else (_PUT_STAMPED, (*row, stamp))

    def _ttl(self, until: int) -> int:
        """Of one that ended long ago, a second: 0 would be for ever."""
        if until == FOREVER:
            return NO_TTL
        left = timedelta(hours=until + 1 - hour_of(self._clock.now())) + KEPT_BEYOND
        return max(1, int(left.total_seconds()))

    def forget(self, hour: int) -> None:
        """Each row ends by itself."""
