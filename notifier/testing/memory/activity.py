"""The hours of activity in memory, written by one port and read by the other; they can be wiped."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import SHARD_BYTES, SHARD_MEMBERS, Bits, from_bytes, shard_of
from notifier.domain.ids import Member
from notifier.ports.clock import Clock


@dataclass(slots=True)
class MemoryActivity:
    hours: dict[tuple[int, int], bytearray] = field(default_factory=dict)

    def wipe(self) -> None:
        self.hours.clear()

    async def touch(self, members: Collection[Member], hour: int) -> None:
        self.note(members, hour)

    def note(self, members: Collection[Member], hour: int) -> None:
        for member in members:
            place = member % SHARD_MEMBERS
            bits = self.hours.setdefault((hour, shard_of(member)), bytearray(SHARD_BYTES))
            bits[place // 8] |= 1 << place % 8


@dataclass(slots=True)
class MemoryActiveHours:
    activity: MemoryActivity
    clock: Clock
    said: tuple[datetime, datetime] | None = None
    """What was said, and when it is forgotten."""

    def wipe(self) -> None:
        self.activity.wipe()
        self.said = None

    def touch(self, members: Collection[Member], hour: int) -> None:
        self.activity.note(members, hour)

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        found = {shard: self.activity.hours.get((hour, shard)) for shard in shards}
        return {shard: from_bytes(bytes(bits)) for shard, bits in found.items() if bits}

    def rolled_up(self, at: datetime, lasting: timedelta) -> None:
        self.said = at, self.clock.now() + lasting

    def last_rolled_up(self) -> datetime | None:
        return self.said[0] if self.said and self.clock.now() < self.said[1] else None
