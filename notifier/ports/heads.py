"""The heads: one row a subject, changed by compare-and-set alone."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from notifier.domain.bursts.sequencer import Head
from notifier.domain.ids import Subject


class Heads(Protocol):
    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """The newest committed head of each; a fresh one for a subject that has none."""
        ...

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        """Replaces each head whose stored version is exactly one below, and says which ones were.

        Each swap stands alone; durable when it returns. A swap whose answer was lost is resolved by the nonce: the
        writer is told True if the stored head is its own. Raises StoreUnavailable or Full when the outcome of some
        isn't known; loading again tells.
        """
        ...

    def unpublished(self, limit: int) -> Sequence[Subject]:
        """Subjects whose outbox isn't empty: the work of those who died."""
        ...
