"""The seals: inserted if absent, one partition a shard, and gone by themselves after a week."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec import pack_seal, unpack_seal
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.seal import KEPT_FOR, Seal
from notifier.domain.subject import BurstKey
from notifier.ports.clock import Clock

_READ = "SELECT shard, blob, sealed_at FROM seals WHERE subject = ? AND seq = ? AND shard = ?"
_INSERT = statement("put_seal")
_LIFE = KEPT_FOR // timedelta(seconds=1)


class CassandraSeals:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        """By a quorum, not at SERIAL: what it shows was decided, and who misses one loses the insert to it."""
        keys = [(str(burst.subject), burst.seq, shard) for shard in sorted(shards)]
        found = [row for rows in self._cluster.ask_each(_READ, keys) for row in rows]
        # The node counts the week by its own clock; what a burst may still do ends by ours.
        since = self._clock.now() - KEPT_FOR
        return {row.shard: unpack_seal(row.shard, row.blob) for row in found if from_ms(row.sealed_at) > since}

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        # An insert whose answer is lost raises. Whoever seals again finds what stands, his own or another's; nobody
        # has used a seal before he was told that it stands.
        now = to_ms(self._clock.now())
        rows = [(str(burst.subject), burst.seq, seal.shard, pack_seal(seal), now, _LIFE) for seal in seals]
        answers = self._cluster.ask_each(_INSERT, rows)
        # Who loses is told the winner's in the same answer.
        return [
            seal if answer.applied else unpack_seal(seal.shard, answer.blob)
            for seal, (answer,) in zip(seals, answers, strict=True)
        ]
