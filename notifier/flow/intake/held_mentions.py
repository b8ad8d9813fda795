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
from notifier.flow.sequencing.retraction_settlement import current_mentions
from notifier.ports.all_ports import Ports
from notifier.ports.coordination import Clock
from notifier.ports.event_log import EventLog, Record
from notifier.ports.retractions import HeldMentions, Retractions


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMentionRelease:
    log: EventLog
    held_mentions: HeldMentions
    clock: Clock

    @classmethod
    def of(cls, ports: Ports) -> Self:
        return cls(log=ports.log, held_mentions=ports.held_mentions, clock=ports.clock)

    def __call__(self, mentions: Sequence[HeldMention], operator: str) -> Sequence[HeldMention]:
        """Release the mentions; return those that were released by this call and not decided before.

        Raises LogUnavailable, Full and StoreUnavailable; then some may have been sent although they still wait.

        The log comes first. After a crash before the decision the mention still waits although it was sent. It is
        released again, and the coordinator recognizes the event. In the opposite order it would never be sent. If a
        moderator drops it in between, the drop counts for a router that reads the record later; a router that read it
        before has delivered it.
        """
        now = self.clock.now()
        sent = [mention for mention in mentions if mention.event and mention.is_waiting(now)]
        self.log.append(
            [
                Record(stream=topics.MENTIONS, key=str(mention.id), value=pack(Arrival.released_at(mention.event, now)))
                for mention in sent
                if mention.event
            ]
        )
        return [
            mention
            for mention in sent
            if self.held_mentions.decide(mention.id, ModerationDecision.RELEASED, operator, now)
        ]


# Held mentions as they may be displayed: without text that was retracted meanwhile.


def with_current_text(retractions: Retractions, held_mentions: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return each held mention with its current text, which is empty if all of its mentions were retracted."""
    named = [(held, account) for held in held_mentions if held.event for account in held.accounts]
    mentions = current_mentions(retractions, [_mention(held.event, account) for held, account in named if held.event])
    texts = dict[str, str]()
    for (held, _), mention in zip(named, mentions, strict=True):
        texts[held.key] = texts.get(held.key) or mention.text
    return [replace(held, event=held.event and replace(held.event, text=texts[held.key])) for held in held_mentions]


def _mention(event: Event, account: UserId) -> Mention:
    return Mention.from_event(event, Subject(Kind.MENTION, account), Verdict.HOLD, lane=Lane.STANDARD, followers=0)
