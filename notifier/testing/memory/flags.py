"""The flags in memory."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from notifier.domain.audience.account_flags import Flag, Flagged, Place, flying
from notifier.domain.audience.bitmap import Bits, shard_of


@dataclass(slots=True)
class MemoryFlags:
    kept: dict[Place, Flagged] = field(default_factory=dict)

    def write(self, flagged: Iterable[Flagged]) -> None:
        for one in flagged:
            self.kept[one.place] = max(one, self.kept.get(one.place, one), key=lambda said: said.rank)

    def standing(self, places: Collection[Place]) -> Mapping[Place, Flagged]:
        return {place: self.kept[place] for place in places if place in self.kept}

    def members(self, flag: Flag, shard: int) -> Bits:
        return flying(one for one in self.kept.values() if one.flag is flag and shard_of(one.member) == shard)
