"""The hold: a mention that waits for a person to decide, and what becomes of it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.ids import UserId

WAITS = timedelta(days=30)
"""At most: what nobody let go by then is dropped. Nobody is told today what was said a month ago."""
KNOWN = RETENTION + timedelta(days=1)
"""As long as anybody may ask what became of the event, and as it may be sent again."""
KEY_BYTES = 8


class ModerationDecision(StrEnum):
    RELEASED = "released"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMention:
    """One event's, for all the accounts whose followers are not told of it."""

    id: EventId
    author: UserId
    accounts: tuple[UserId, ...]
    since: datetime
    """When the event was accepted."""
    event: Event | None
    """None once it has waited for as long as it may: its text is kept no longer."""
    decision: ModerationDecision | None = None

    @classmethod
    def of(cls, event: Event, accounts: tuple[UserId, ...]) -> "HeldMention":
        return cls(id=event.id, author=event.author, accounts=accounts, since=event.accepted_at, event=event)

    @property
    def key(self) -> str:
        """What operators call it by: an event's id is the sender's, and may be long, or two senders'."""
        return blake2b(f"{self.id.source}\0{self.id.id}".encode(), digest_size=KEY_BYTES).hexdigest()

    @property
    def blank(self) -> "HeldMention":
        """Without what was said in it."""
        return replace(self, event=self.event and replace(self.event, text=""))

    def waits(self, now: datetime) -> bool:
        return self.decision is None and now < self.since + WAITS

    def keeps(self, *, released: bool) -> bool:
        """Whether its event, which comes again, is kept from its accounts: dropped it stays so, and not let go it waits
        on, or has waited too long."""
        return self.decision is ModerationDecision.DROPPED or (self.decision is None and not released)

    def refusal(self, now: datetime) -> MentionRefusal | None:
        """Of its accounts, until the router has taken it again; None where somebody let it go."""
        if self.decision is ModerationDecision.RELEASED:
            return None
        return MentionRefusal.HELD if self.waits(now) else MentionRefusal.DENIED
