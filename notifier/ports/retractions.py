"""What was taken back, kept longer than what it is about; and the trails that lead to the mentions it is about."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.retraction import Retraction, Trail
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a mention is kept."""

    burst: BurstKey
    event: EventId


class Retractions(Protocol):
    """Durable. Everything raises StoreUnavailable, and Full where it writes; whoever writes again writes the same.

    Mentions come to their trails with `Bursts.write`, and are on all of them before that returns. Whoever writes a
    retraction and then follows its trails, and whoever writes a mention and then asks what stands: one of the two
    always sees what the other wrote.
    """

    def write(self, retractions: Collection[Retraction]) -> None:
        """Each, unless what stands under its trail ranks higher."""
        ...

    def standing(self, trails: Collection[Trail]) -> Mapping[Trail, Retraction]:
        """What stands under them; most have nothing."""
        ...

    def along(self, trails: Collection[Trail], burst: BurstKey | None = None) -> Iterator[Place]:
        """All that they lead to, one after another, or what of it is in the burst; read as it is asked for, however
        much there is."""
        ...

    def read(self, places: Collection[Place]) -> Mapping[Place, Mention]:
        """The mentions as they stand there, also those that were retracted."""
        ...

    def within(self, burst: BurstKey) -> Iterator[Mention]:
        """All of a burst's mentions, as `read` has them; read as they are asked for."""
        ...
