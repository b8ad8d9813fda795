"""The heads in memory."""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from notifier.domain.bursts.sequencer import Head
from notifier.domain.ids import Subject


class MemoryHeads:
    def __init__(self) -> None:
        self._heads: dict[Subject, Head] = {}

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        return {subject: self._stored(subject) for subject in subjects}

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        return [self._swap(head) for head in heads]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        return list(islice((s for s, head in sorted(self._heads.items()) if not head.published), limit))

    def _swap(self, head: Head) -> bool:
        stored = self._stored(head.subject)
        if stored.version == head.version - 1:
            self._heads[head.subject] = head
            return True
        return (stored.version, stored.nonce) == (head.version, head.nonce)

    def _stored(self, subject: Subject) -> Head:
        return self._heads.get(subject) or Head.fresh(subject)
