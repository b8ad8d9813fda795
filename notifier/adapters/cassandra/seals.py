"""The seals: each is written under its maker's name, then a run of shards is told at once whose stand."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from uuid import uuid4

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec import pack_seal, unpack_seal
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.errors import StoreUnavailable
from notifier.domain.seal import KEPT_FOR, Seal
from notifier.domain.subject import BurstKey
from notifier.ports.clock import Clock

RUN = 64
"""Shards of a partition: what a worker seals at once, in one round of Paxos."""

_PUT = "INSERT INTO seals (subject, seq, shard, made, blob) VALUES (?, ?, ?, ?, ?)"
_CHOOSE = statement("choose_seal")
_CHOSEN = "SELECT shard, made, sealed_at FROM sealed WHERE subject = ? AND seq = ? AND run = ? AND shard IN ?"
_READ = "SELECT shard, blob FROM seals WHERE subject = ? AND seq = ? AND shard = ? AND made = ?"
_LIFE = KEPT_FOR // timedelta(seconds=1)

Made = str
"""The name under which somebody wrote seals, which nobody else gives."""


class CassandraSeals:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        # The node counts the week by its own clock; what a burst may still do ends by ours.
        return standing(self._cluster, burst, shards, self._clock.now() - KEPT_FOR)

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        # Before a name is chosen its seals are there. Cut off in between, they are never read, and end by themselves.
        key, made, now = (str(burst.subject), burst.seq), uuid4().hex, to_ms(self._clock.now())
        self._cluster.ask_each(_PUT, [(*key, seal.shard, made, pack_seal(seal)) for seal in seals])
        others = dict(self._lost(burst, [seal.shard for seal in seals], made, now))
        found = _seals(self._cluster, burst, others)
        if others.keys() - found.keys():
            raise StoreUnavailable(f"Seals of {burst} that stand can't be read yet.")
        return [found.get(seal.shard, seal) for seal in seals]

    def _lost(self, burst: BurstKey, shards: Iterable[int], made: Made, now: int) -> Iterator[tuple[int, Made]]:
        """Names those of the shards that others have named before, whose seals then stand.

        Raises StoreUnavailable where an answer is lost: whoever seals again finds what stands, his own or another's,
        and nobody has used a seal before he was told that it stands.
        """
        runs = [(run, list(some)) for run, some in groupby(sorted(shards), lambda shard: shard // RUN)]
        key = str(burst.subject), burst.seq
        groups = [[(*key, run, shard, made, now, _LIFE) for shard in some] for run, some in runs]
        applied = self._cluster.decide_together(_CHOOSE, groups)
        if None in applied:
            raise StoreUnavailable(f"Whose seals of {burst} stand isn't known yet.")
        if left := [shard for (_, some), mine in zip(runs, applied, strict=True) if not mine for shard in some]:
            named = _chosen(self._cluster, burst, left, None)
            if not named:
                raise StoreUnavailable(f"Whose seals of {burst} stand isn't known yet.")
            yield from named.items()
            yield from self._lost(burst, set(left) - named.keys(), made, now)


def standing(
    cluster: Cluster, burst: BurstKey, shards: Collection[int], since: datetime | None = None
) -> Mapping[int, Seal]:
    """By a quorum, not at SERIAL: what it shows was decided, and who misses one loses the choice to it."""
    return _seals(cluster, burst, _chosen(cluster, burst, shards, since))


def _chosen(cluster: Cluster, burst: BurstKey, shards: Collection[int], since: datetime | None) -> dict[int, Made]:
    runs = groupby(sorted(shards), lambda shard: shard // RUN)
    found = cluster.ask_each(_CHOSEN, [(str(burst.subject), burst.seq, run, list(some)) for run, some in runs])
    return {row.shard: row.made for rows in found for row in rows if since is None or from_ms(row.sealed_at) > since}


def _seals(cluster: Cluster, burst: BurstKey, made: Mapping[int, Made]) -> dict[int, Seal]:
    asked = [(str(burst.subject), burst.seq, shard, by) for shard, by in sorted(made.items())]
    found = cluster.ask_each(_READ, asked)
    return {row.shard: unpack_seal(row.shard, row.blob) for rows in found for row in rows}
