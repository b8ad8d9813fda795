"""In-memory dead letters and lane tallies."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop, resumed
from notifier.ports.event_log_and_dead_letters import DeadLetter


class MemoryDeadLetters:
    def __init__(self) -> None:
        self.by_id: dict[str, DeadLetter] = {}

    def put(self, letter: DeadLetter) -> None:
        self.by_id.setdefault(letter.id, letter)

    def list(self, limit: int) -> Sequence[DeadLetter]:
        return sorted(self.by_id.values(), key=lambda letter: (letter.at, letter.id), reverse=True)[:limit]


# Lane tallies, with a list as audit log.


class MemoryDeadLetterTallies:
    def __init__(self) -> None:
        self._tallies: dict[str, DeadLetterTally] = {}
        self.audit: list[tuple[str, str, LaneStop]] = []
        """Operator, reason and the stop that was ended."""

    def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
        return {lane: self._stored(lane) for lane in lanes}

    def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
        if self._stored(tally.lane).version == tally.version - 1:
            self._tallies[tally.lane] = tally
        return self._stored(tally.lane)

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        stored = self._stored(lane)
        if stored.stop is None:
            return None
        self._tallies[lane] = resumed(stored)
        self.audit.append((operator, reason, stored.stop))
        return stored.stop

    def _stored(self, lane: str) -> DeadLetterTally:
        return self._tallies.get(lane) or DeadLetterTally(lane=lane)
