"""The live sets of many shards, a few at a time, so that memory doesn't depend on followers."""

from collections.abc import Callable, Iterator, Sequence

from notifier.domain.audience import ShardSets
from notifier.domain.subject import Subject, UserId
from notifier.ports.sets import MemberSets

AT_ONCE = 32
"""Shards: fifteen sets of each are some 8 MB."""

Advance = Callable[[int], object]
"""Told of shards that are done."""


def lives(
    sets: MemberSets, subject: Subject, shards: Sequence[int], advance: Advance, restricted_to: UserId | None = None
) -> Iterator[tuple[int, ShardSets]]:
    """Raises StoreUnavailable, and Poison where a set can't be read."""
    for first in range(0, len(shards), AT_ONCE):
        some = shards[first : first + AT_ONCE]
        yield from zip(some, sets.live(subject, some, restricted_to), strict=True)
        advance(len(some))
