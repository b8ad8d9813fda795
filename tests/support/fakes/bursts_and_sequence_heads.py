"""In-memory bursts, outcomes of events, and sequence heads."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.bursts import MentionOutcome
from notifier.ports.inbox import InboxPosition

NamedAccount = tuple[EventId, UserId, Subject | None]
"""An account that an event names, with the subject it was sequenced for; None if it was refused."""


class MemoryBursts:
    """Implements Bursts and RecentBursts."""

    def __init__(self) -> None:
        self.by_key: dict[BurstKey, Burst] = {}
        self.mentions: dict[tuple[BurstKey, EventId], Mention] = {}
        self.changed: dict[tuple[BurstKey, EventId], int] = {}
        """Version of the burst that changed the mention last."""
        self.changes: list[BurstKey | None] = []
        """The change feed; None is a lapse of viewers."""
        self._outcomes: dict[NamedAccount, MentionOutcome] = {}

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        for burst in bursts:
            stored = self.by_key.get(burst.key)
            if stored is None or stored.version < burst.version:
                self.by_key[burst.key] = burst
        for sequenced in mentions:
            mention, key = sequenced.mention, BurstKey(sequenced.mention.subject, sequenced.seq)
            self.mentions.setdefault((key, mention.event), mention)
            account = mention.subject.owner
            outcome = MentionOutcome(event=mention.event, account=account, burst=key, refusal=None)
            self._outcomes.setdefault((mention.event, account, mention.subject), outcome)
        versions = {burst.key: burst.version for burst in bursts}
        for sequenced_change in changed:
            key = BurstKey(sequenced_change.mention.subject, sequenced_change.seq)
            if self.changed.get((key, sequenced_change.mention.event), 0) < versions[key]:
                self.changed[key, sequenced_change.mention.event] = versions[key]
                self.mentions[key, sequenced_change.mention.event] = sequenced_change.mention
        self.changes += [burst.key for burst in bursts]

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return {key: self.by_key[key] for key in keys if key in self.by_key}

    def known_events(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        return {
            subject: {event for event in events_of_subject if (event, subject.owner, subject) in self._outcomes}
            for subject, events_of_subject in events.items()
        }

    def record_refusals(self, outcomes: Sequence[MentionOutcome]) -> None:
        for outcome in outcomes:
            self._outcomes.setdefault((outcome.event, outcome.account, None), outcome)

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        rows = [
            (event, account, str(subject or ""), outcome)
            for (event, account, subject), outcome in self._outcomes.items()
            if event.id == id and source in (None, event.source)
        ]
        return [outcome for *_, outcome in sorted(rows, key=lambda row: row[:3])]

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        recent = {InboxPosition(b.opened_at, b.key): b for b in self.by_key.values() if b.opened_at >= moment}
        newest = sorted((place for place in recent if after is None or place < after), reverse=True)
        return [recent[place] for place in newest[:limit]]


# Sequence heads.


class MemoryHeads:
    def __init__(self) -> None:
        self._heads: dict[Subject, Head] = {}

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        return {subject: self._stored(subject) for subject in subjects}

    def compare_and_set(self, heads: Sequence[Head]) -> Sequence[bool]:
        return [self._swap(head) for head in heads]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        return list(islice((s for s, head in sorted(self._heads.items()) if not head.is_published), limit))

    def _swap(self, head: Head) -> bool:
        stored = self._stored(head.subject)
        if stored.version == head.version - 1:
            self._heads[head.subject] = head
            return True
        return (stored.version, stored.nonce) == (head.version, head.nonce)

    def _stored(self, subject: Subject) -> Head:
        return self._heads.get(subject) or Head.empty(subject)
