"""The live bus: a word to those who watch now; lost words cost them a second."""

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Protocol

from notifier.domain.burst import Burst

CAUGHT_UP_EVERY = timedelta(seconds=1)
"""A reader that was not told for twice as long that it has caught up can be taken for deaf."""


class LiveBus(Protocol):
    def publish(self, bursts: Sequence[Burst]) -> None:
        """One message a burst, whatever the number of listeners; only after burst and index are durable.

        Raises CacheUnavailable.
        """
        ...


class LiveReader(Protocol):
    def listen(self) -> AsyncGenerator[Burst | None, None]:
        """What is published from now on, in order, for ever. None says that it has caught up: first when it begins to
        hear, then every second, and everything published up to then has been given.

        Raises CacheUnavailable as soon as it may have missed something; who listens anew begins with a gap.
        """
        ...
