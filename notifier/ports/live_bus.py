"""Ports of the live bus, which notifies connected clients of changes."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, UserId

CAUGHT_UP_INTERVAL = timedelta(seconds=1)
"""Interval of the caught-up signal. A reader without a signal for twice as long can be considered disconnected."""


@dataclass(frozen=True, slots=True)
class MissedUpdates:
    """Message that earlier updates of bursts may have been lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarksChanged:
    """A user's marks changed. The change is durable."""

    user: UserId
    bursts: tuple[BurstKey, ...]
    """Bursts that were marked; empty if the inbox was marked as seen."""
    by: str
    """Name of the live hub that published the message; it has notified its own streams already."""


LiveMessage = Burst | MissedUpdates | MarksChanged


class LiveBus(Protocol):
    def publish(self, messages: Sequence[Burst | MissedUpdates]) -> None:
        """Publish one message per item, in order. The caller's cost does not depend on the number of listeners.

        Publish a burst only after it is durable in the store, and after the attempt to write it to the pull index.
        Blocking. Raises CacheUnavailable; then each message may or may not have been delivered.
        """
        ...


class LiveReader(Protocol):
    def listen(self) -> AsyncGenerator[LiveMessage | None, None]:
        """Yield every message published from now on, those of one publisher in order.

        None is the caught-up signal: everything that was published before the bus sent it has been yielded. The first
        signal comes when the subscription starts, and a further one about every second (CAUGHT_UP_INTERVAL). Raises
        CacheUnavailable if a message may have been lost.
        """
        ...

    async def publish_marks(self, change: MarksChanged) -> None:
        """Publish the message to all listeners, those of this process included. Raises CacheUnavailable."""
        ...
