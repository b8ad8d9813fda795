"""What was said of accounts, flag by flag: the rows from which the VIPs' bitmaps are made, and can be made again."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from notifier.domain.audience.account_flags import Flag, Flagged, Place
from notifier.domain.audience.bitmap import Bits


class Flags(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same."""

    def write(self, flagged: Iterable[Flagged]) -> None:
        """Each, unless what stands of its place ranks higher. In any order, and any number of times."""
        ...

    def standing(self, places: Collection[Place]) -> Mapping[Place, Flagged]:
        """What stands of them; without those of which nothing was ever said."""
        ...

    def members(self, flag: Flag, shard: int) -> Bits:
        """Everybody of the shard for whom it is set, by the same rows."""
        ...
