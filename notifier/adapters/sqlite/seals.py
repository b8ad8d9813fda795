"""The seals in the inbox files, beside the rows that are written from them."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from notifier.adapters.sqlite.connection import Database
from notifier.codec import pack_seal, unpack_seal
from notifier.codec.moments import to_ms
from notifier.domain.audience import Tier
from notifier.domain.bits import Bits
from notifier.domain.seal import Part, Seal, Tally
from notifier.domain.subject import BurstKey
from notifier.ports.clock import Clock

_READ = "SELECT shard, blob FROM seals WHERE subject = ? AND seq = ? AND shard IN (SELECT value FROM json_each(?))"
_INSERT = "INSERT OR IGNORE INTO seals (subject, seq, shard, blob, sealed_at) VALUES (?, ?, ?, ?, ?)"


class SqliteSeals:
    def __init__(self, inboxes: Sequence[Database], clock: Clock) -> None:
        self._inboxes = inboxes
        self._clock = clock

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        found: dict[int, Seal] = {}
        for db, some in self._by_file(shards):
            found |= _read(db, burst, some)
        return found

    # A file gives all of a seal as quickly as a part of it.
    def parts(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Part]:
        return {shard: seal.part(tier) for shard, seal in self.read(burst, shards).items()}

    def alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        return {shard: seal.alerted(tier) for shard, seal in self.read(burst, shards).items()}

    def tallies(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Tally]:
        return {shard: seal.tally() for shard, seal in self.read(burst, shards).items()}

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        standing = {seal.shard: seal for seal in seals}
        now = to_ms(self._clock.now())
        for db, shards in self._by_file(standing):
            rows = [(str(burst.subject), burst.seq, shard, pack_seal(standing[shard]), now) for shard in shards]
            with db.write() as c:
                won = [c.execute(_INSERT, row).rowcount == 1 for row in rows]
            if lost := [shard for shard, first in zip(shards, won, strict=True) if not first]:
                standing |= _read(db, burst, lost)
        return [standing[seal.shard] for seal in seals]

    def _by_file(self, shards: Iterable[int]) -> Iterable[tuple[Database, list[int]]]:
        files: dict[int, list[int]] = defaultdict(list)
        for shard in sorted(shards):
            files[shard % len(self._inboxes)].append(shard)
        return [(self._inboxes[file], some) for file, some in files.items()]


def _read(db: Database, burst: BurstKey, shards: Sequence[int]) -> dict[int, Seal]:
    with db.read() as c:
        rows = c.execute(_READ, (str(burst.subject), burst.seq, json.dumps(shards))).fetchall()
    return {shard: unpack_seal(shard, blob) for shard, blob in rows}
