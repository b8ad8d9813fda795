"""What was taken back, in memory; the trails are walked by looking at every mention."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.retraction import Retraction, Trail, found_by
from notifier.domain.ids import BurstKey
from notifier.ports.retractions import Place
from notifier.testing.memory.bursts import MemoryBursts


class MemoryRetractions:
    def __init__(self, bursts: MemoryBursts) -> None:
        self._bursts = bursts
        self._standing: dict[Trail, Retraction] = {}

    def write(self, retractions: Collection[Retraction]) -> None:
        for one in retractions:
            before = self._standing.get(one.trail)
            if before is None or before.rank < one.rank:
                self._standing[one.trail] = one

    def standing(self, trails: Collection[Trail]) -> Mapping[Trail, Retraction]:
        return {trail: self._standing[trail] for trail in trails if trail in self._standing}

    def along(self, trails: Collection[Trail], burst: BurstKey | None = None) -> Iterator[Place]:
        led = defaultdict[Trail, list[Place]](list)
        for (key, event), mention in sorted(self._bursts.mentions.items()):
            for trail in found_by(mention) if burst in (None, key) else ():
                led[trail].append(Place(key, event))
        for trail in trails:
            yield from led.get(trail, ())

    def read(self, places: Collection[Place]) -> Mapping[Place, Mention]:
        mentions = self._bursts.mentions
        return {p: mentions[p.burst, p.event] for p in places if (p.burst, p.event) in mentions}

    def within(self, burst: BurstKey) -> Iterator[Mention]:
        yield from (mention for (key, _), mention in [*self._bursts.mentions.items()] if key == burst)
