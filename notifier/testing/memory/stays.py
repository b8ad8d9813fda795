"""The stays in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from notifier.domain.audience.bitmap import Bits, joined
from notifier.domain.audience.tiers import SetKind
from notifier.domain.fencing import Stamp
from notifier.ports.audience import Stay

Name = tuple[SetKind, int, int]
"""The set, the shard and the last hour."""


@dataclass(slots=True)
class MemoryStays:
    kept: dict[Name, tuple[int, Bits]] = field(default_factory=dict)

    def standing(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return joined(
            (shard, bits)
            for (of, shard, until), (_, bits) in self.kept.items()
            if of is kind and shard in shards and until >= hour
        )

    def until(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return {shard: self.kept[kind, shard, hour][1] for shard in shards if (kind, shard, hour) in self.kept}

    def put(self, stays: Iterable[Stay], stamp: Stamp | None = None) -> None:
        for stay in stays:
            name, at = (stay.kind, stay.shard, stay.until), stamp or 0
            if name not in self.kept or at >= self.kept[name][0]:
                self.kept[name] = at, stay.bits.copy()

    def forget(self, hour: int) -> None:
        self.kept = {name: kept for name, kept in self.kept.items() if name[2] >= hour}
