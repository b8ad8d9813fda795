"""Who is to be spared an alert, in memory: the deleted, and whom the predicate denies it of all who are known."""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import chain

from notifier.codec.push import spares
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.users.account_preferences import Asleep
from notifier.domain.users.visibility import pushable_awake
from notifier.ports.push import Spare
from notifier.testing.memory.directory import MemoryDirectory
from notifier.testing.memory.people import MemoryPeople


class MemorySpared:
    def __init__(self, people: MemoryPeople, directory: MemoryDirectory) -> None:
        self._people = people
        self._directory = directory

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        known = [(member, viewer) for member, viewer in self._people.known().items() if shard_of(member) in shards]
        denied = [member for member, viewer in known if not pushable_awake(burst, viewer, now=now)]
        gone = [member for member in self._directory.deleted() if shard_of(member) in shards]
        asleep = [
            (member, Asleep(until=until))
            for member, viewer in known
            if (until := viewer.overall.looked_for_at(burst, now)) is not None
        ]
        return spares(shards, chain(denied, gone), asleep)
