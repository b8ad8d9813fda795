"""Who blocks whom, in memory: what stands is what MemoryPeople shows."""

from collections.abc import Collection

from notifier.domain.ids import UserId
from notifier.domain.users.user_blocks import Parting
from notifier.testing.memory.people import MemoryPeople


class MemoryPartings:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._standing: dict[tuple[UserId, UserId], Parting] = {}

    def write(self, partings: Collection[Parting]) -> None:
        for parting in partings:
            pair = parting.blocker, parting.blocked
            before = self._standing.get(pair)
            if before is None or (parting.sequence, parting.until) > (before.sequence, before.until):
                self._standing[pair] = parting
                self._people.part(parting)
