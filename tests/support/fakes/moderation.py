"""In-memory held mentions and verdicts, with lists as audit logs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import AuthorVerdict
from notifier.domain.ids import UserId
from notifier.ports.leases_queues_throttles_clock import Clock


class MemoryHeldMentions:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_event: dict[EventId, HeldMention] = {}
        self.audit: list[tuple[str, ModerationDecision, EventId]] = []
        """Operator, decision and event."""

    def put(self, held_mentions: Collection[HeldMention]) -> None:
        for hold in held_mentions:
            self.by_event.setdefault(hold.id, hold)

    def waiting(self) -> Iterator[HeldMention]:
        now = self._clock.now()
        return (hold for hold in list(self.by_event.values()) if hold.is_waiting(now))

    def count(self) -> int:
        return sum(1 for _ in self.waiting())

    def by_event_id(self, ids: Collection[str]) -> Sequence[HeldMention]:
        matching = [hold for hold in self.by_event.values() if hold.id.id in ids]
        return sorted(map(self._visible, matching), key=lambda hold: (hold.id.id, hold.id.source))

    def decide(self, event: EventId, decision: ModerationDecision, operator: str, now: datetime) -> bool:
        hold = self.by_event.get(event)
        if hold is None or not hold.is_waiting(now):
            return False
        self.by_event[event] = replace(hold, decision=decision)
        self.audit.append((operator, decision, event))
        return True

    def _visible(self, hold: HeldMention) -> HeldMention:
        return hold if self._clock.now() < hold.since + MAX_DECISION_WAIT else replace(hold, event=None)


# Verdicts that operators set for authors, with a list as audit log.


class MemoryAuthorVerdicts:
    def __init__(self) -> None:
        self._verdicts: dict[UserId, AuthorVerdict] = {}
        self.audit: list[AuthorVerdict] = []

    def put(self, author_verdict: AuthorVerdict) -> None:
        current = self._verdicts.get(author_verdict.user)
        if current is None or author_verdict.at > current.at:
            self._verdicts[author_verdict.user] = author_verdict
        self.audit.append(author_verdict)

    def read_current(self, users: Collection[UserId]) -> Mapping[UserId, AuthorVerdict]:
        return {user: self._verdicts[user] for user in users if user in self._verdicts}

    def read_all(self) -> Sequence[AuthorVerdict]:
        return sorted(self._verdicts.values(), key=lambda verdict: verdict.user)
