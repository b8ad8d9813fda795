"""Tracks the retractions of a run and which of them must be applied by now."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from notifier import topics
from notifier.codec import unpack
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.ids import Kind
from notifier.ports.event_log_and_dead_letters import Record
from tests.support.oracle import RetractionUpdate
from tests.support.simulator.durable_state import DurableState

SEQUENCED = (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD)
Pair = tuple[str, str]
"""A tweet and an account that it mentions."""


@dataclass(slots=True)
class RetractionTracker:
    state: DurableState
    by_event: dict[str, RetractionUpdate] = field(default_factory=dict)
    """Retractions by event id, as the script has them."""
    positions: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Log positions by event id; several if the event was sent again."""
    mentions_before: dict[str, Collection[Pair]] = field(default_factory=dict)
    """Mentions that existed when the retraction was first appended. Its processing begins later, so it finds at least
    these."""
    applied_by_api: set[str] = field(default_factory=set)
    """Retractions that the API itself has applied."""

    def note(self, partition: str, offset: int, record: Record) -> None:
        id = unpack(Retraction, record.value).id.id
        self.positions.setdefault(id, []).append((partition, offset))
        self.mentions_before.setdefault(id, self._mentions_of(self.by_event[id]))

    def note_applied(self, retractions: Collection[Retraction]) -> None:
        self.applied_by_api.update(retraction.id.id for retraction in retractions)

    def logged(self) -> Sequence[RetractionUpdate]:
        """Return all retractions that may be applied."""
        return [self.by_event[id] for id in self.positions]

    def applied(self) -> Sequence[RetractionUpdate]:
        """Return the retractions that must be applied: committed by the retractor, or applied by the API."""
        return [self.by_event[id] for id in self._applied()]

    def unsettled(self) -> frozenset[Pair]:
        """Return pairs that a coordinator may have written since without checking for retractions yet."""
        uncommitted = [record for stream in SEQUENCED for record in self.state.log.uncommitted_records(stream)]
        mentions = [unpack(Mention, record.value) for record in uncommitted]
        pairs = {(mention.tweet, str(mention.subject.owner)) for mention in mentions}
        return frozenset(pairs.difference(*(self.mentions_before[id] for id in self._applied())))

    def _applied(self) -> Sequence[str]:
        return [id for id in self.positions if id in self.applied_by_api or self._committed(id)]

    def _mentions_of(self, retraction: RetractionUpdate) -> Collection[Pair]:
        """Return mentions by the author that exist as both burst kinds."""
        counts = Counter(
            (mention.tweet, str(mention.subject.owner))
            for mention in self.state.bursts.mentions.values()
            if mention.author == retraction.author and retraction.tweet in ("", mention.tweet)
        )
        return frozenset(pair for pair, n in counts.items() if n == len(Kind))

    def _committed(self, id: str) -> bool:
        return any(self.state.log.settled(partition, offset) for partition, offset in self.positions[id])
