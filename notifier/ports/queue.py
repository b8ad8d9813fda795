"""The task queues: they only wake workers; what is lost or doubled in them, the ledger makes good."""

from collections.abc import Sequence
from typing import Protocol

from notifier.domain.delivery.slice import Pool, Slice


class Queue(Protocol):
    """May lose, double and reorder. Raises QueueUnavailable."""

    def enqueue(self, slices: Sequence[Slice]) -> None:
        """Each to its pool, where those that pass (`Slice.passes`) come out before all others, by whomever and whenever
        they were queued; at most one other per worker is out already."""
        ...

    def depth(self, pool: Pool) -> int:
        """Waiting, without those a worker holds."""
        ...
