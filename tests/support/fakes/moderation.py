"""In-memory held mentions and verdicts, with lists as audit logs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from notifier.domain.bursts.held_mention import WAITS, HeldMention, ModerationDecision
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import ReachWord
from notifier.domain.ids import UserId
from notifier.ports.coordination import Clock


class MemoryHolds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_event: dict[EventId, HeldMention] = {}
        self.audit: list[tuple[str, ModerationDecision, EventId]] = []
        """Operator, decision and event."""

    def put(self, holds: Collection[HeldMention]) -> None:
        for hold in holds:
            self.by_event.setdefault(hold.id, hold)

    def waiting(self) -> Iterator[HeldMention]:
        now = self._clock.now()
        return (hold for hold in list(self.by_event.values()) if hold.waits(now))

    def count(self) -> int:
        return sum(1 for _ in self.waiting())

    def of(self, ids: Collection[str]) -> Sequence[HeldMention]:
        matching = [hold for hold in self.by_event.values() if hold.id.id in ids]
        return sorted(map(self._visible, matching), key=lambda hold: (hold.id.id, hold.id.source))

    def decide(self, event: EventId, decision: ModerationDecision, who: str, now: datetime) -> bool:
        hold = self.by_event.get(event)
        if hold is None or not hold.waits(now):
            return False
        self.by_event[event] = replace(hold, decision=decision)
        self.audit.append((who, decision, event))
        return True

    def _visible(self, hold: HeldMention) -> HeldMention:
        return hold if self._clock.now() < hold.since + WAITS else replace(hold, event=None)


# Verdicts that operators set for authors, with a list as audit log.


class MemoryReaches:
    def __init__(self) -> None:
        self._verdicts: dict[UserId, ReachWord] = {}
        self.audit: list[ReachWord] = []

    def say(self, word: ReachWord) -> None:
        current = self._verdicts.get(word.user)
        if current is None or word.at > current.at:
            self._verdicts[word.user] = word
        self.audit.append(word)

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        return {user: self._verdicts[user] for user in users if user in self._verdicts}

    def listed(self) -> Sequence[ReachWord]:
        return sorted(self._verdicts.values(), key=lambda verdict: verdict.user)
