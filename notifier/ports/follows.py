"""Who follows whom since when: the rows from which the bitmaps of followers are made, and can be made again."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.follows import BlockFollows, Follow, Place
from notifier.domain.ids import Member, Subject

Pair = tuple[Subject, Member]


class Follows(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, follows: Collection[Follow]) -> None:
        """Each, unless what stands of its pair has the higher sequence. In any order, and any number of times."""
        ...

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        """Each in place of what stands of its subject and block. Of any size: what it takes from is read as it goes."""
        ...

    def settle_blocks(self, follows: Collection[BlockFollows]) -> Mapping[Place, BlockFollows]:
        """Each where nothing stands of its subject and block; elsewhere, what stands stays, and is told.

        Of two who settle one place at once the same row stands for both.
        """
        ...

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        """Whether each follows, by what stands now: the member's own word, or else the block's."""
        ...

    def followers(self, subject: Subject, shard: int) -> Bits:
        """Everybody who follows, by the same rows."""
        ...
