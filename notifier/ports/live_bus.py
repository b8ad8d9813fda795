"""The live bus: a word to those who watch now; what was lost of it is said as soon as anything can be said."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, UserId

CAUGHT_UP_EVERY = timedelta(seconds=1)
"""A reader that was not told for twice as long that it has caught up can be taken for deaf."""


@dataclass(frozen=True, slots=True)
class MissedUpdates:
    """Bursts may have grown before this word without a word of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A person's marks were changed, and are durable."""

    user: UserId
    bursts: tuple[BurstKey, ...]
    """Which were marked; none where the list was seen."""
    by: str
    """Whoever tells it, and needn't be told."""


Word = Burst | MissedUpdates | Marked


class LiveBus(Protocol):
    def publish(self, words: Sequence[Burst | MissedUpdates]) -> None:
        """One message each, in order, whatever the number of listeners; a burst only after it and its index are
        durable.

        Raises CacheUnavailable: then any of them may have been heard, and any may not.
        """
        ...


class LiveReader(Protocol):
    def listen(self) -> AsyncGenerator[Word | None, None]:
        """What is published from now on, in order, for ever. None says that it has caught up: first when it begins to
        hear, then every second, and everything published up to then has been given.

        Raises CacheUnavailable as soon as it may have missed something; who listens anew begins with a gap.
        """
        ...

    async def tell(self, word: Marked) -> None:
        """To all who listen, oneself included. Raises CacheUnavailable."""
        ...
