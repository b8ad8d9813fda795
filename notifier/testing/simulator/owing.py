"""The pull index as a process has it: what Redis refused is remembered and said first at the next call of any kind."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.pull_index import PullIndex
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

    def rebuilt(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        given: list[Burst] = []
        self.index.rebuilt(_noted(pages, given), since, as_of)
        self.ground.unannounced.difference_update(burst.key for burst in given)

    def compared(self, since: datetime, as_of: datetime) -> None:
        self._pay()
        self.index.compared(since, as_of)

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


def _noted(pages: Iterable[Sequence[Burst]], given: list[Burst]) -> Iterator[Sequence[Burst]]:
    for page in pages:
        given += page
        yield page
