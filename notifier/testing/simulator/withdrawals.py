"""Withdrawals: what was said of tweets and their authors, and which of it must have come by now."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from notifier import topics
from notifier.codec import unpack
from notifier.domain.mention import Mention
from notifier.domain.retraction import Retraction
from notifier.ports.log import Record
from notifier.testing.oracle import Withdrawn
from notifier.testing.simulator.ground import Ground


@dataclass(slots=True)
class Withdrawals:
    ground: Ground
    given: dict[str, Withdrawn] = field(default_factory=dict)
    """As the script says it, by the event's id."""
    heard: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Where each stands in the log; more than once where it had to be said again."""
    settled: set[str] = field(default_factory=set)
    """What the API has settled by itself."""

    def hear(self, partition: str, offset: int, record: Record) -> None:
        self.heard.setdefault(unpack(Retraction, record.value).id.id, []).append((partition, offset))

    def settles(self, retractions: Collection[Retraction]) -> None:
        self.settled.update(one.id.id for one in retractions)

    def said(self) -> Sequence[Withdrawn]:
        """All that may have come."""
        return [self.given[id] for id in self.heard]

    def sure(self) -> Sequence[Withdrawn]:
        """What must have: the retractor has done with it for good, or the API."""
        return [self.given[id] for id in self.heard if id in self.settled or self._done(id)]

    def unsettled(self) -> frozenset[str]:
        """Tweets of which a coordinator may have written a mention, and not asked yet what stands."""
        streams = (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD) if self.heard else ()
        undone = [record for stream in streams for record in self.ground.log.undone(stream)]
        return frozenset(unpack(Mention, record.value).tweet for record in undone)

    def _done(self, id: str) -> bool:
        return any(self.ground.log.settled(partition, offset) for partition, offset in self.heard[id])
