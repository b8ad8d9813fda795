"""The seals in memory."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.snapshot import KEPT_FOR, Part, Seal, Tally
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey
from notifier.ports.clock import Clock


class MemorySeals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seals: dict[BurstKey, dict[int, tuple[datetime, Seal]]] = {}

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        stored = self._seals.get(burst, {})
        return {shard: stored[shard][1] for shard in shards if shard in stored}

    def parts(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Part]:
        return {shard: seal.part(tier) for shard, seal in self.read(burst, shards).items()}

    def alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
        return {shard: seal.alerted(tier) for shard, seal in self.read(burst, shards).items()}

    def tallies(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Tally]:
        return {shard: seal.tally() for shard, seal in self.read(burst, shards).items()}

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        now = self._clock.now()
        stored = self._seals.setdefault(burst, {})
        return [stored.setdefault(seal.shard, (now, seal))[1] for seal in seals]

    def of(self, burst: BurstKey) -> Sequence[Seal]:
        """All of a burst, by shard."""
        return [seal for _, (_, seal) in sorted(self._seals.get(burst, {}).items())]

    def sweep(self, now: datetime, limit: int) -> int:
        """The inbox's sweep calls this, because both are swept together."""
        old = [
            (burst, shard)
            for burst, stored in self._seals.items()
            for shard, (sealed_at, _) in stored.items()
            if sealed_at + KEPT_FOR <= now
        ][:limit]
        for burst, shard in old:
            del self._seals[burst][shard]
        return len(old)
