"""Who was around, by hour: told by whoever saw it, read by the roll-up, and forgotten within hours or at any moment."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.ids import Member

KEPT = timedelta(hours=8)
"""For so long an hour can be read after it was told of: a roll-up that is away for longer loses what was between.

25 MB an hour where all of 200 million people look in every hour, and up to 49 MB as a server keeps strings that grow.
"""


class Activity(Protocol):
    """Asynchronous: the read path tells. Raises CacheUnavailable."""

    async def touch(self, members: Collection[Member], hour: int) -> None:
        """In one round trip; twice is once, and of two who tell at the same time neither loses the other's."""
        ...


class ActiveHours(Protocol):
    """Raises CacheUnavailable."""

    def touch(self, members: Collection[Member], hour: int) -> None:
        """As the read path does: of all who tell at the same time none loses another's."""
        ...

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Who was touched in that hour, in those of the shards where it is anybody; in one round trip."""
        ...

    def rolled_up(self, at: datetime, lasting: timedelta) -> None:
        """The roll-up's word: what was told until then is in the sets. Forgotten after `lasting`."""
        ...

    def last_rolled_up(self) -> datetime | None:
        """None when nothing was said lately, or the cache was emptied since."""
        ...
