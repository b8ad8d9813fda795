"""Who is to be spared an alert, in memory: the deleted, and whom the predicate denies it of all who are known."""

from datetime import datetime

from notifier.domain.bits import SHARD_MEMBERS, Bits, from_offsets, nobody, shard_of
from notifier.domain.burst import Burst
from notifier.domain.visible import pushable
from notifier.testing.memory.directory import MemoryDirectory
from notifier.testing.memory.people import MemoryPeople


class MemorySpared:
    def __init__(self, people: MemoryPeople, directory: MemoryDirectory) -> None:
        self._people = people
        self._directory = directory

    def read(self, burst: Burst, shard: int, now: datetime) -> Bits:
        spared = [
            member % SHARD_MEMBERS
            for member, viewer in self._people.known().items()
            if shard_of(member) == shard and not pushable(burst, viewer, now=now)
        ]
        spared += [member % SHARD_MEMBERS for member in self._directory.deleted() if shard_of(member) == shard]
        return from_offsets(spared) if spared else nobody()
