"""What is left of somebody's words, in memory."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from notifier.domain.bursts.held_mention import Hold
from notifier.domain.ids import UserId
from notifier.ports.dead_letters import DeadLetter
from notifier.testing.memory.deadletters import MemoryDeadLetters
from notifier.testing.memory.holds import MemoryHolds


class MemoryTraces:
    def __init__(self, holds: MemoryHolds, letters: MemoryDeadLetters) -> None:
        self._holds = holds
        self._letters = letters

    def held(self, authors: Collection[UserId]) -> Iterator[Hold]:
        stored = [*self._holds.by_event.values()]
        return (hold for hold in stored if hold.author in authors and hold.event and hold.event.text)

    def blank(self, holds: Collection[Hold]) -> None:
        for hold in holds:
            stored = self._holds.by_event[hold.id]
            self._holds.by_event[hold.id] = stored.blank

    def letters(self) -> Iterator[DeadLetter]:
        return (letter for letter in [*self._letters.by_id.values()] if letter.body)

    def empty(self, letters: Collection[DeadLetter]) -> None:
        for letter in letters:
            self._letters.by_id[letter.id] = replace(self._letters.by_id[letter.id], body=b"")
