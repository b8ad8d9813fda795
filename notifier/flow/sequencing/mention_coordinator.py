"""Coordinator: assigns the mentions of a batch to numbered bursts."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from notifier.codec import unpack
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, LoggedMention, advance
from notifier.domain.ids import Subject
from notifier.flow.sequencing.burst_publishing_and_planning import Publisher
from notifier.flow.sequencing.retracted_burst_updates import RetractionSettlement
from notifier.ports.bursts import Bursts, MentionOutcome
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces

MAX_CACHED_HEADS = 4_096
"""Number of cached heads above which the cache is emptied. In a storm of mentions a few hundred subjects are active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    bursts: Bursts
    settlement: RetractionSettlement
    publisher: Publisher
    clock: Clock
    nonces: Nonces
    collapse_window: timedelta | None = None
    """Replaces the collapse window of every policy, if set."""
    budget_refill: timedelta | None = None
    """Replaces the refill time of every policy's fan-out budget, if set."""
    cached_heads: dict[Subject, Head] = field(default_factory=dict)
    """Heads as this process last published them. If another process has changed a head since, our next compare-and-set
    of it fails."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Give every mention of the records a published burst, unless the mention was retracted."""
        logged_mentions = _logged_mentions(records)
        remaining = _group_by_subject(self._apply_retractions(logged_mentions))
        while remaining:
            heads = self._load_heads(remaining)
            known_events = self.bursts.known_events(
                {s: [record.mention.event for record in remaining[s]] for s in heads}
            )
            next_heads = {s: self._advance(head, remaining[s], known_events[s]) for s, head in heads.items()}
            changed_heads = [head for subject, head in next_heads.items() if head is not heads[subject]]
            swapped_subjects, published_heads = self.publisher.swap_and_publish(changed_heads)
            self._cache_heads(published_heads)
            completed = swapped_subjects | (set(heads) - {head.subject for head in changed_heads})
            remaining = {subject: mentions for subject, mentions in remaining.items() if subject not in completed}
        # Check again after writing: a retraction that was stored before the mentions were written may have missed them.
        # Check all mentions of the batch: an attempt that crashed may have written a mention that is retracted now.
        self.settlement.resettle([record.mention for record in logged_mentions])

    def _apply_retractions(self, records: Sequence[LoggedMention]) -> Sequence[LoggedMention]:
        """Return the mentions with the stored retractions applied. Record a refusal for each retracted mention.

        Retracted mentions get no burst. They are returned, because the head must record their log offsets.
        """
        mentions = self.settlement.current([record.mention for record in records])
        retracted = [mention for mention in mentions if mention.retracted]
        if retracted:
            self.bursts.record_refusals([_retracted_outcome(mention) for mention in retracted])
        return [replace(record, mention=mention) for record, mention in zip(records, mentions, strict=True)]

    def _load_heads(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """Return the heads, from the cache where possible.

        A cached head is taken out of the cache. If its compare-and-set fails, the next round reads it from the store.
        """
        cached = {subject: head for subject in subjects if (head := self.cached_heads.pop(subject, None))}
        return {
            **cached,
            **self.publisher.finish_publishing([subject for subject in subjects if subject not in cached]),
        }

    def _cache_heads(self, heads: Sequence[Head]) -> None:
        if len(self.cached_heads) > MAX_CACHED_HEADS:
            self.cached_heads.clear()
        self.cached_heads.update({head.subject: head for head in heads})

    def _advance(self, head: Head, records: Sequence[LoggedMention], known_events: Collection[EventId]) -> Head:
        return advance(
            head,
            records,
            sequenced_events=known_events,
            now=self.clock.now(),
            nonce=self.nonces.new(),
            collapse_override=self.collapse_window,
            refill_override=self.budget_refill,
        )


def _retracted_outcome(mention: Mention) -> MentionOutcome:
    return MentionOutcome(
        event=mention.event, account=mention.subject.owner, burst=None, refusal=MentionRefusal.RETRACTED
    )


def _logged_mentions(records: Sequence[Logged]) -> list[LoggedMention]:
    return [
        LoggedMention(partition=logged.partition, offset=logged.offset, mention=unpack(Mention, logged.record.value))
        for logged in records
    ]


def _group_by_subject(records: Sequence[LoggedMention]) -> dict[Subject, list[LoggedMention]]:
    records_by_subject: dict[Subject, list[LoggedMention]] = defaultdict(list)
    for record in records:
        records_by_subject[record.mention.subject].append(record)
    return dict(records_by_subject)
