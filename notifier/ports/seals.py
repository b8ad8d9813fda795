"""The seals: what each burst's audience was in each shard, decided by whoever came first."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from notifier.domain.seal import Seal
from notifier.domain.subject import BurstKey


class Seals(Protocol):
    """Durable for a week. Raises StoreUnavailable, and Full where it writes."""

    def read(self, burst: BurstKey, shards: Collection[int]) -> Mapping[int, Seal]: ...

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        """Inserts each seal if the shard has none yet; returns what stands now, the winner's, in the same order."""
        ...
