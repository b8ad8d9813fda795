"""The canonical bursts, and the mentions that they are made of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, Sequenced
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.inbox import InboxPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one account that an event names: a burst for each subject, a refusal, or one of each."""

    event: EventId
    account: UserId
    burst: BurstKey | None
    refusal: MentionRefusal | None


class Bursts(Protocol):
    def write(self, bursts: Sequence[Burst], mentions: Sequence[Sequenced], changed: Sequence[Sequenced] = ()) -> None:
        """Durable when it returns; of two writes of a burst the higher version stands, a mention is written once.

        The bursts are readable before the mentions' ids are known. What is `changed` was written before, and stands as
        it is here from now on, unless it was changed by a burst of a higher version. Raises StoreUnavailable or Full.
        """
        ...

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    def known(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        """Of each subject's events those that already have their burst in it: the dedupe that counts."""
        ...

    def refuse(self, outcomes: Sequence[Outcome]) -> None:
        """Remembers why accounts' followers got no mention."""
        ...

    def outcomes(self, source: str | None, id: str) -> Sequence[Outcome]:
        """Of the event, or of every event with this id when no source is named."""
        ...


class RecentBursts(Protocol):
    def since(self, moment: datetime, behind: InboxPosition | None, limit: int) -> Sequence[Burst]:
        """Bursts opened since then, newest first, behind a place: what the pull index is rebuilt from, page by page."""
        ...


# The heads: one row a subject, changed by compare-and-set alone.


class Heads(Protocol):
    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        """The newest committed head of each; a fresh one for a subject that has none."""
        ...

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        """Replaces each head whose stored version is exactly one below, and says which ones were.

        Each swap stands alone; durable when it returns. A swap whose answer was lost is resolved by the nonce: the
        writer is told True if the stored head is its own. Raises StoreUnavailable or Full when the outcome of some
        isn't known; loading again tells.
        """
        ...

    def unpublished(self, limit: int) -> Sequence[Subject]:
        """Subjects whose outbox isn't empty: the work of those who died."""
        ...
