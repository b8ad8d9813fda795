"""Ports of the bursts, their mentions and the sequence heads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.inbox import InboxPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionOutcome:
    """Burst or refusal of a mention, for one account that the event names.

    An event may have several outcomes for an account, for example the burst of the account's own subject (`self:`) and
    a refusal for its followers.
    """

    event: EventId
    account: UserId
    burst: BurstKey | None
    refusal: MentionRefusal | None


class Bursts(Protocol):
    """Bursts, their mentions and the outcomes. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        """Write bursts and mentions. They are durable on return.

        For each burst the higher version wins. Once `known_events` returns an event of the mentions, its bursts are
        readable. `changed` replaces stored mentions, except those stored with a higher version of their burst.
        """
        ...

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    def known_events(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        """Return, by subject, those of the events that already have a burst of the subject."""
        ...

    def record_refusals(self, outcomes: Sequence[MentionOutcome]) -> None: ...

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        """Return the outcomes of the event; without a source, those of every event with this ID."""
        ...


class RecentBursts(Protocol):
    """Bursts of all subjects. Blocking. Raises StoreUnavailable."""

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        """Return at most `limit` bursts that opened since `moment`, newest first, and older than `after`."""
        ...


# Sequence heads: one row per subject, changed only by compare-and-set.


class Heads(Protocol):
    """Sequence heads. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """Return the latest committed head of each subject; an empty head for a subject without one."""
        ...

    def compare_and_set(self, heads: Sequence[Head]) -> Sequence[bool]:
        """Replace each head whose stored version is exactly one lower; return for each whether it was replaced.

        Heads are replaced independently of each other, and are durable on return. After an error the result is unknown.
        The caller may repeat the call with the same heads: a stored head with the same nonce counts as replaced. Before
        any other change the caller must load the heads again.
        """
        ...

    def unpublished(self, limit: int) -> Sequence[Subject]:
        """Return at most `limit` subjects whose head has a non-empty outbox."""
        ...
