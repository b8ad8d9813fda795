"""The live bus in memory: it keeps what was said."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.burst import Burst


@dataclass(slots=True)
class MemoryBus:
    heard: list[Burst] = field(default_factory=list)

    def publish(self, bursts: Sequence[Burst]) -> None:
        self.heard.extend(bursts)
