"""The task queues in memory: plain lists, which a simulator may shorten, double and shuffle as it likes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.delivery.slice import Pool, Slice


@dataclass(slots=True)
class MemoryQueue:
    waiting: dict[Pool, list[Slice]] = field(default_factory=lambda: {pool: [] for pool in Pool})
    """Oldest first."""

    def wipe(self) -> None:
        for slices in self.waiting.values():
            slices.clear()

    def enqueue(self, slices: Sequence[Slice]) -> None:
        for piece in slices:
            self.waiting[piece.pool].append(piece)

    def depth(self, pool: Pool) -> int:
        return len(self.waiting[pool])

    def take(self, pool: Pool) -> Slice | None:
        """What a worker does; None when nothing waits."""
        waiting = self.waiting[pool]
        place = next((place for place, piece in enumerate(waiting) if piece.passes), 0)
        return waiting.pop(place) if waiting else None
