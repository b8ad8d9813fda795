"""The pull index as a process has it: what Redis refused is remembered and said first at the next call of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.subject import BurstKey
from notifier.ports.pull import PullIndex
from notifier.testing.simulator.ground import Ground


@dataclass(slots=True)
class OwingPull:
    """In a process's memory: the debt is lost with it, as the adapter's is."""

    index: PullIndex
    ground: Ground
    owed: dict[BurstKey, Burst] = field(default_factory=dict)

    def announce(self, bursts: Sequence[Burst]) -> None:
        self._pay(bursts)

    def generation(self) -> str | None:
        self._pay()
        return self.index.generation()

    def rebuilt(self, bursts: Sequence[Burst], since: datetime) -> None:
        self.index.rebuilt(bursts, since)
        self.ground.unannounced.difference_update(burst.key for burst in bursts)

    def _pay(self, bursts: Sequence[Burst] = ()) -> None:
        self.owed |= {burst.key: burst for burst in bursts}
        if not self.owed:
            return
        given = list(self.owed.values())
        try:
            self.index.announce(given)
        except CacheUnavailable:
            self.ground.unannounced.update(self.owed)
            raise
        self.ground.unannounced.difference_update(burst.key for burst in given)
        for burst in given:
            if self.owed.get(burst.key) is burst:
                del self.owed[burst.key]
