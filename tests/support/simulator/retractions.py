"""Withdrawals: what was said of tweets and their authors, and which of it must have come by now."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from notifier import topics
from notifier.codec import unpack
from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.ids import Kind
from notifier.ports.event_log import Record
from tests.support.oracle import Withdrawn
from tests.support.simulator.durable_state import Ground

SEQUENCED = (topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD)
Pair = tuple[str, str]
"""A tweet and an account that it mentions."""


@dataclass(slots=True)
class Withdrawals:
    ground: Ground
    given: dict[str, Withdrawn] = field(default_factory=dict)
    """As the script says it, by the event's id."""
    heard: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """Where each stands in the log; more than once where it had to be said again."""
    stood: dict[str, Collection[Pair]] = field(default_factory=dict)
    """What was written of the tweets it is about, as it was said first: who settles it begins later, and finds that."""
    settled: set[str] = field(default_factory=set)
    """What the API has settled by itself."""

    def hear(self, partition: str, offset: int, record: Record) -> None:
        id = unpack(Retraction, record.value).id.id
        self.heard.setdefault(id, []).append((partition, offset))
        self.stood.setdefault(id, self._written(self.given[id]))

    def settles(self, retractions: Collection[Retraction]) -> None:
        self.settled.update(one.id.id for one in retractions)

    def said(self) -> Sequence[Withdrawn]:
        """All that may have come."""
        return [self.given[id] for id in self.heard]

    def sure(self) -> Sequence[Withdrawn]:
        """What must have: the retractor has done with it for good, or the API."""
        return [self.given[id] for id in self._sure()]

    def unsettled(self) -> frozenset[Pair]:
        """What a coordinator may have written since, and not asked yet what stands."""
        undone = [record for stream in SEQUENCED for record in self.ground.log.undone(stream)]
        mentions = [unpack(Mention, record.value) for record in undone]
        found = {(mention.tweet, str(mention.subject.owner)) for mention in mentions}
        return frozenset(found.difference(*(self.stood[id] for id in self._sure())))

    def _sure(self) -> Sequence[str]:
        return [id for id in self.heard if id in self.settled or self._done(id)]

    def _written(self, word: Withdrawn) -> Collection[Pair]:
        """Both for the account and for those who follow it."""
        found = Counter(
            (mention.tweet, str(mention.subject.owner))
            for mention in self.ground.bursts.mentions.values()
            if mention.author == word.author and word.tweet in ("", mention.tweet)
        )
        return frozenset(pair for pair, n in found.items() if n == len(Kind))

    def _done(self, id: str) -> bool:
        return any(self.ground.log.settled(partition, offset) for partition, offset in self.heard[id])
