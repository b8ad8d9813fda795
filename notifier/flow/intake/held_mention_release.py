"""Releases held mentions: appends their events to the log again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from notifier import topics
from notifier.codec import pack
from notifier.domain.bursts.events_and_mentions import Event, LoggedEvent, Mention
from notifier.domain.bursts.held_mention import HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.sequencing.retracted_burst_updates import current_mentions
from notifier.ports.all_ports import Ports
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.moderation_and_retractions import HeldMentions, Retractions


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMentionRelease:
    log: EventLog
    held_mentions: HeldMentions
    clock: Clock

    @classmethod
    def of(cls, ports: Ports) -> Self:
        return cls(log=ports.log, held_mentions=ports.held_mentions, clock=ports.clock)

    def __call__(self, mentions: Sequence[HeldMention], operator: str) -> Sequence[HeldMention]:
        """Release the mentions that still wait: append their events, marked as released.

        Return the mentions whose release this call has recorded.

        After an error some mentions may be in the log although they are still waiting for a decision.
        """
        # Append to the log before recording the decision. After a crash between the two, the mention is in the log and
        # still waiting. An operator releases it again, and the coordinator recognizes the repeated event. In the
        # opposite order, the crash would leave a released mention that no router reads.
        # Another operator may drop the mention between the two. If a router has read the record before the drop, the
        # mention is delivered anyway.
        now = self.clock.now()
        waiting = [mention for mention in mentions if mention.event and mention.is_waiting(now)]
        self.log.append(
            [
                Record(
                    stream=topics.MENTIONS, key=str(mention.id), value=pack(LoggedEvent.for_release(mention.event, now))
                )
                for mention in waiting
                if mention.event
            ]
        )
        return [
            mention
            for mention in waiting
            if self.held_mentions.decide(mention.id, ModerationDecision.RELEASED, operator, now)
        ]


# Held mentions for display, without text that was retracted since they were stored.


def with_current_text(retractions: Retractions, held_mentions: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return each held mention with its current text.

    An edit may retract the mentions of only some accounts that the event names. The text is empty if the mentions of
    all its accounts are retracted.
    """
    pairs = [(held, account) for held in held_mentions if held.event for account in held.accounts]
    mentions = current_mentions(retractions, [_mention(held.event, account) for held, account in pairs if held.event])
    texts = dict[str, str]()
    for (held, _), mention in zip(pairs, mentions, strict=True):
        texts[held.key] = texts.get(held.key) or mention.text
    return [replace(held, event=held.event and replace(held.event, text=texts[held.key])) for held in held_mentions]


def _mention(event: Event, account: UserId) -> Mention:
    return Mention.from_event(event, Subject(Kind.MENTION, account), Verdict.HOLD, lane=Lane.STANDARD, followers=0)
