"""The live bus: a word to those who watch now; lost words cost them a second."""

from collections.abc import Sequence
from typing import Protocol

from notifier.domain.burst import Burst


class LiveBus(Protocol):
    def publish(self, bursts: Sequence[Burst]) -> None:
        """One message a burst, whatever the number of listeners; only after burst and index are durable.

        Raises CacheUnavailable.
        """
        ...
