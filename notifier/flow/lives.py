"""The live sets of many shards, a few at a time, so that memory doesn't depend on followers."""

from collections.abc import Callable, Iterator, Sequence

from notifier.domain.audience.tiers import ShardSets
from notifier.domain.errors import Poison, Unavailable
from notifier.domain.ids import Subject, UserId
from notifier.ports.audience import MemberSets

AT_ONCE = 32
"""Shards: fifteen sets of each are some 8 MB."""

Advance = Callable[[int], object]
"""Told of shards that are done."""


def lives(
    sets: MemberSets, subject: Subject, shards: Sequence[int], advance: Advance, restricted_to: UserId | None = None
) -> Iterator[tuple[int, ShardSets]]:
    """Raises Unavailable, also where a set can't be read."""
    for first in range(0, len(shards), AT_ONCE):
        some = shards[first : first + AT_ONCE]
        try:
            found = sets.live(subject, some, restricted_to)
        except Poison as poison:  # who only looks asks for nothing, and is told how one does
            raise Unavailable(f"{poison.detail} Try `notifier audience verify @{subject.owner} --repair`.") from poison
        yield from zip(some, found, strict=True)
        advance(len(some))
