"""The release: a held mention goes through the log again, and passes the hold."""

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
        """Those of which this was the decision: nobody had decided before. Raises LogUnavailable and Full, and what the
        store does; then some may have been sent, and still wait.

        The log first. Whoever dies before the decision leaves a mention that waits and was sent all the same: it is let
        go again, and the coordinator knows it by its event. The other way round it would never be sent. Where somebody
        drops it in between, it is dropped for a router that comes to it later; for one that came before, it was told.
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


# What is held, as it may be shown: without the text of what was taken back meanwhile.


def with_current_text(retractions: Retractions, holds: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return each hold with the current text of its mentions: none if all of them were retracted."""
    named = [(hold, account) for hold in holds if hold.event for account in hold.accounts]
    mentions = current(retractions, [_mention(hold.event, account) for hold, account in named if hold.event])
    texts = dict[str, str]()
    for (hold, _), mention in zip(named, mentions, strict=True):
        texts[hold.key] = texts.get(hold.key) or mention.text
    return [replace(hold, event=hold.event and replace(hold.event, text=texts[hold.key])) for hold in holds]


def _mention(event: Event, account: UserId) -> Mention:
    return Mention.of(event, Subject(Kind.MENTION, account), Verdict.HOLD, lane=Lane.STANDARD, followers=0)
