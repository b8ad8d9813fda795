"""Held mentions: mentions that wait for an operator's decision."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.ids import UserId

MAX_DECISION_WAIT = timedelta(days=30)
"""Longest wait for a decision: an older mention is too old to notify anyone."""
HELD_MENTION_KEPT_FOR = RETENTION + timedelta(days=1)
"""How long a held mention is stored: until the gateway would no longer accept its event."""
KEY_BYTES = 8


class ModerationDecision(StrEnum):
    RELEASED = "released"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMention:
    """An event that was held for an operator's decision, and the accounts whose followers wait for it."""

    id: EventId
    author: UserId
    accounts: tuple[UserId, ...]
    since: datetime
    """When the event was accepted."""
    event: Event | None
    """May be None after MAX_DECISION_WAIT, because texts are not kept longer."""
    decision: ModerationDecision | None = None

    @classmethod
    def from_event(cls, event: Event, accounts: tuple[UserId, ...]) -> "HeldMention":
        return cls(id=event.id, author=event.author, accounts=accounts, since=event.accepted_at, event=event)

    @property
    def key(self) -> str:
        """Return a short id for operators. Senders choose event ids, which may be long or in use by two senders."""
        return blake2b(f"{self.id.source}\0{self.id.id}".encode(), digest_size=KEY_BYTES).hexdigest()

    @property
    def without_text(self) -> "HeldMention":
        return replace(self, event=self.event and replace(self.event, text=""))

    def is_waiting(self, now: datetime) -> bool:
        return self.decision is None and now < self.since + MAX_DECISION_WAIT

    def withholds(self, *, released: bool) -> bool:
        """Return whether an event record from the log must not reach the followers of these accounts.

        A release logs the event again, with `released` set. That record passes unless the mention was dropped.
        """
        return self.decision is ModerationDecision.DROPPED or (self.decision is None and not released)

    def refusal(self, now: datetime) -> MentionRefusal | None:
        """Return what to report for accounts without a recorded outcome; None (no refusal) after a release.

        HELD while the mention waits; DENIED if it was dropped, or waited too long.
        """
        if self.decision is ModerationDecision.RELEASED:
            return None
        return MentionRefusal.HELD if self.is_waiting(now) else MentionRefusal.DENIED
