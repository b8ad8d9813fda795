"""What people say of everything: the rows from which everybody's bitmaps of it are made, and can be made again."""

from collections.abc import Collection, Mapping
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import Overall, OverallWord


class Overalls(Protocol):
    """Durable. Everything raises StoreUnavailable; whoever writes again writes the same."""

    def write(self, words: Collection[OverallWord]) -> None:
        """Each, unless what stands of what it is about was said later. In any order, and any number of times."""
        ...

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        """Without those who said nothing."""
        ...

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        """Everybody in the shard who wants less of everything, or no alerts, by the same rows; of each of the kinds,
        also where it is nobody."""
        ...
