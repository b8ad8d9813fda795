"""The seals: what each burst's audience was in each shard, decided by whoever came first."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.snapshot import Part, Seal, Tally
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey


class Seals(Protocol):
    """Durable for a week. Raises StoreUnavailable, and Full where it writes."""

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]:
        """Of those shards that have one. Whoever needs only a part asks for it: a large seal is 64 KiB."""
        ...

    def parts(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Part]: ...

    def alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]: ...

    def tallies(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Tally]: ...

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        """Inserts each seal if the shard has none yet; returns what stands now, the winner's, in the same order."""
        ...
