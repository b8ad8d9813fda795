"""Release of held mentions: append them to the log again, marked as released."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from notifier import topics
from notifier.codec import pack
from notifier.domain.bursts.held_mention import HeldMention, ModerationDecision
from notifier.domain.bursts.mention import Arrival, Event, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.sequencing.retraction_settlement import current
from notifier.ports.all_ports import Ports
from notifier.ports.coordination import Clock
from notifier.ports.event_log import EventLog, Record
from notifier.ports.retractions import Holds, Retractions


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    log: EventLog
    holds: Holds
    clock: Clock

    @classmethod
    def of(cls, ports: Ports) -> Self:
        return cls(log=ports.log, holds=ports.holds, clock=ports.clock)

    def __call__(self, holds: Sequence[HeldMention], who: str) -> Sequence[HeldMention]:
        """Release the mentions; return those that were released by this call and not decided before.

        Raises LogUnavailable, Full and StoreUnavailable; then some may have been sent although they still wait.

        The log comes first. After a crash before the decision the mention still waits although it was sent. It is
        released again, and the coordinator recognizes the event. In the opposite order it would never be sent. If a
        moderator drops it in between, the drop counts for a router that reads the record later; a router that read it
        before has delivered it.
        """
        now = self.clock.now()
        sent = [hold for hold in holds if hold.event and hold.waits(now)]
        self.log.append(
            [
                Record(stream=topics.MENTIONS, key=str(hold.id), value=pack(Arrival.again(hold.event, now)))
                for hold in sent
                if hold.event
            ]
        )
        return [hold for hold in sent if self.holds.decide(hold.id, ModerationDecision.RELEASED, who, now)]


# Held mentions as they may be displayed: without text that was retracted meanwhile.


def with_current_text(retractions: Retractions, holds: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return each held mention with its current text, which is empty if all of its mentions were retracted."""
    named = [(hold, account) for hold in holds if hold.event for account in hold.accounts]
    mentions = current(retractions, [_mention(hold.event, account) for hold, account in named if hold.event])
    texts = dict[str, str]()
    for (hold, _), mention in zip(named, mentions, strict=True):
        texts[hold.key] = texts.get(hold.key) or mention.text
    return [replace(hold, event=hold.event and replace(hold.event, text=texts[hold.key])) for hold in holds]


def _mention(event: Event, account: UserId) -> Mention:
    return Mention.of(event, Subject(Kind.MENTION, account), Verdict.HOLD, lane=Lane.STANDARD, followers=0)
