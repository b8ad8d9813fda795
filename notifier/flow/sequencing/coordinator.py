"""The coordinator: mentions get their burst and its number; one compare-and-set a subject and batch decides."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from notifier.codec import unpack
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, Numbered, advance
from notifier.domain.ids import Subject
from notifier.flow.sequencing.publisher import Publisher
from notifier.flow.sequencing.retraction_settlement import RetractionSettlement
from notifier.ports.bursts import Bursts, Outcome
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.event_log import Logged

OWN = 4_096
"""Heads that are kept; a storm has some hundred subjects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    bursts: Bursts
    settlement: RetractionSettlement
    publisher: Publisher
    clock: Clock
    nonces: Nonces
    collapse: timedelta | None = None
    refill: timedelta | None = None
    own: dict[Subject, Head] = field(default_factory=dict)
    """As published here last, and not read again: a swap is refused to whoever has one that others have changed."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every mention of the records has its burst, durable and announced, when it returns; or was taken back."""
        numbered = _numbered(records)
        waiting = _by_subject(self._standing(numbered))
        while waiting:
            heads = self._heads(waiting)
            known = self.bursts.known({s: [record.mention.event for record in waiting[s]] for s in heads})
            decided = {s: self._advance(head, waiting[s], known[s]) for s, head in heads.items()}
            news = [head for subject, head in decided.items() if head is not heads[subject]]
            won, published = self.publisher.swap_and_publish(news)
            self._keep(published)
            settled = won | (set(heads) - {head.subject for head in news})
            waiting = {subject: rest for subject, rest in waiting.items() if subject not in settled}
        # Check again after writing: a retraction stored meanwhile cannot have found these mentions. A crash before this
        # line repeats the batch and returns here with all of its mentions, also with those that were written before the
        # crash and that `_standing` now takes for mentions retracted before they arrived.
        self.settlement.resettle([record.mention for record in numbered])

    def _standing(self, records: Sequence[Numbered]) -> Sequence[Numbered]:
        """What was taken back before it came gets no burst, and keeps its place in the log."""
        found = self.settlement.current([record.mention for record in records])
        gone = [mention for mention in found if mention.retracted]
        if gone:
            self.bursts.refuse([_taken_back(mention) for mention in gone])
        return [replace(record, mention=mention) for record, mention in zip(records, found, strict=True)]

    def _heads(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """Our own once: the next round reads what was swapped by others, or isn't known to be published."""
        own = {subject: head for subject in subjects if (head := self.own.pop(subject, None))}
        return {**own, **self.publisher.finish([subject for subject in subjects if subject not in own])}

    def _keep(self, heads: Sequence[Head]) -> None:
        if len(self.own) > OWN:
            self.own.clear()
        self.own.update({head.subject: head for head in heads})

    def _advance(self, head: Head, records: Sequence[Numbered], known: Collection[EventId]) -> Head:
        return advance(
            head,
            records,
            known=known,
            now=self.clock.now(),
            nonce=self.nonces.new(),
            collapse=self.collapse,
            refill=self.refill,
        )


def _taken_back(mention: Mention) -> Outcome:
    return Outcome(event=mention.event, account=mention.subject.owner, burst=None, refusal=MentionRefusal.RETRACTED)


def _numbered(records: Sequence[Logged]) -> list[Numbered]:
    return [
        Numbered(partition=logged.partition, offset=logged.offset, mention=unpack(Mention, logged.record.value))
        for logged in records
    ]


def _by_subject(records: Sequence[Numbered]) -> dict[Subject, list[Numbered]]:
    found: dict[Subject, list[Numbered]] = defaultdict(list)
    for record in records:
        found[record.mention.subject].append(record)
    return dict(found)
