"""What people want of subjects: the rows from which bitmaps of mutes and volumes are made, and can be made again."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.subject_preferences import BlockMute, Want, Word

Pair = tuple[Subject, Member]


class Wants(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, words: Collection[Word]) -> None:
        """Each, unless what stands of its pair and of what it is about was said later. In any order, and any number of
        times."""
        ...

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        """Replaces the block's."""
        ...

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        """What stands by what the members said themselves; without those who said nothing."""
        ...

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        """Everybody who has muted it or wants less, by the same rows; of each of the kinds, also where it is nobody."""
        ...
