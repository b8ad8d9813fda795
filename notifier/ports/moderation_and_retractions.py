"""Ports of retractions, erasure, held mentions and verdicts on authors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.held_mention import HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import AuthorVerdict
from notifier.domain.bursts.retraction import LookupKey, Retraction, RetractionKey
from notifier.domain.ids import BurstKey, UserId
from notifier.ports.event_log_and_dead_letters import DeadLetter


@dataclass(frozen=True, slots=True, order=True)
class MentionLocation:
    """Burst and event that identify a stored mention."""

    burst: BurstKey
    event: EventId


class Retractions(Protocol):
    """Retractions, kept longer than the mentions they concern. Durable and idempotent. Blocking.

    Every method raises StoreUnavailable, and DiskFull for writes.

    A lookup key leads to mentions. `Bursts.write` registers each mention under all of its keys before it returns. One
    process writes a retraction and then reads the mentions under its lookup keys. Another process writes a mention and
    then reads the current retractions. At least one of the two always sees the other's write.
    """

    def write(self, retractions: Collection[Retraction]) -> None:
        """Store the retractions. For each key, only the retraction with the highest rank is kept."""
        ...

    def read_current(self, keys: Collection[RetractionKey]) -> Mapping[RetractionKey, Retraction]:
        """Return the current retraction of each key; most keys have none."""
        ...

    def mention_locations(
        self, keys: Collection[LookupKey], burst: BurstKey | None = None
    ) -> Iterator[MentionLocation]:
        """Yield the location of every mention under the lookup keys, or only of those in `burst`.

        The locations are read lazily, however many there are.
        """
        ...

    def read_mentions(self, locations: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        """Return the mentions stored at these locations, as they were last written. Retracted ones are included."""
        ...

    def mentions_of_burst(self, burst: BurstKey) -> Iterator[Mention]:
        """Yield all mentions of a burst, as `read_mentions` returns them. They are read lazily."""
        ...


# Erasure targets: places other than mentions where an author's text may remain (held mentions, dead letters).


class ErasureTargets(Protocol):
    """Texts to erase. Durable and idempotent. Blocking.

    Every method raises StoreUnavailable, and DiskFull for writes.
    """

    def held_mentions(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        """Yield the authors' held mentions that still have a text, decided or not. They are read lazily."""
        ...

    def erase_held_texts(self, held_mentions: Collection[HeldMention]) -> None:
        """Erase the text of held mentions for good: a later `HeldMentions.put` does not restore it."""
        ...

    def dead_letters(self) -> Iterator[DeadLetter]:
        """Yield all dead letters that have a body, unordered. They are read lazily."""
        ...

    def erase_letter_bodies(self, letters: Collection[DeadLetter]) -> None:
        """Erase the bodies of dead letters for good: a later `DeadLetters.put` does not restore them."""
        ...


# Held mentions: they wait for an operator's decision.


class HeldMentions(Protocol):
    """Held mentions by event. The text is kept for MAX_DECISION_WAIT, the other fields for HELD_MENTION_KEPT_FOR.

    Durable. Blocking. Raises StoreUnavailable, and DiskFull for writes.
    """

    def put(self, held_mentions: Collection[HeldMention]) -> None:
        """Store each held mention unless its event has one, decided or not."""
        ...

    def waiting(self) -> Iterator[HeldMention]:
        """Yield the mentions that wait: undecided and not expired. The order is arbitrary. They are read lazily.

        A mention that is decided meanwhile may be missing.
        """
        ...

    def count(self) -> int:
        """Return the number of mentions that wait."""
        ...

    def by_event_id(self, ids: Collection[str]) -> Sequence[HeldMention]:
        """Return the held mentions of every event with one of these IDs, from any source, ordered by ID and source.

        Decided and expired mentions are included.
        """
        ...

    def decide(self, event: EventId, decision: ModerationDecision, operator: str, now: datetime) -> bool:
        """Decide a waiting mention once; return False if the mention is not waiting.

        The audit log gets the decision and the operator first, or in the same step.
        """
        ...


# Verdicts that operators set for authors, with operator, reason and time.


class AuthorVerdicts(Protocol):
    """Operators' verdicts by author. Durable. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def put(self, author_verdict: AuthorVerdict) -> None:
        """Store the verdict unless the current one is newer. The audit log gets it first, or in the same step."""
        ...

    def read_current(self, users: Collection[UserId]) -> Mapping[UserId, AuthorVerdict]:
        """Return the current verdicts; users without one are missing."""
        ...

    def read_all(self) -> Sequence[AuthorVerdict]:
        """Return the current verdicts of all users that ever had one, ordered by user ID."""
        ...
