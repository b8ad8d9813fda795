"""The change feed of bursts: how a cache of the read path follows what the store holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst

MOST = 5_000
"""Changed bursts in one answer. Reading more of them costs more than to fill a cache again."""
CLOCKS_DIFFER = timedelta(seconds=3)
"""How far the clock of a writer may be from the clock of a follower, in either direction."""


class Position:
    """A place in the feed. It means something only to the store that returned it, and only in this process."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    bursts: Sequence[Burst]
    """Each changed burst once, as it is now or newer; the burst that changed last is the last."""
    viewers_lapsed: bool
    """Facts of viewers changed, and the process that changed them could not tell the caches."""
    position: Position
    """Where the next call goes on."""


class BurstChanges(Protocol):
    """The bursts that were written lately.

    `Bursts.write` puts each burst that it writes into the feed, after the burst is readable and before it returns. A
    write that raised may be in the feed or not. Asynchronous. Raises StoreUnavailable, and `lapse` also Full.
    """

    async def begin(self) -> Position:
        """Return the end of the feed. Everything that is cached must have been read after this call returned.

        The first call of `after` may repeat bursts that were written up to a few seconds before.
        """
        ...

    async def after(self, position: Position) -> Changes | None:
        """Return what changed since the position.

        Each write that returned before this call began is in this answer or was in an earlier one, provided that the
        clocks differ by no more than CLOCKS_DIFFER. None when the position is too old or more than MOST bursts changed:
        then the caller forgets what it cached and begins again. The same position may be given again after an error.
        """
        ...

    async def lapse(self) -> None:
        """Record that facts of viewers changed and the caches were not told. Durable when it returns; idempotent."""
        ...
