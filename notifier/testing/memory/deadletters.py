"""The dead letters in memory."""

from collections.abc import Sequence

from notifier.ports.dead_letters import DeadLetter


class MemoryDeadLetters:
    def __init__(self) -> None:
        self.by_id: dict[str, DeadLetter] = {}

    def put(self, letter: DeadLetter) -> None:
        self.by_id.setdefault(letter.id, letter)

    def list(self, limit: int) -> Sequence[DeadLetter]:
        return sorted(self.by_id.values(), key=lambda letter: (letter.at, letter.id), reverse=True)[:limit]
