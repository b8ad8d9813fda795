"""A phone book and its switchboard with ports in memory and one log, and who rings where by bitmap and rows."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from notifier import topics
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import Address, Device, DeviceRecord, FirebaseToken
from notifier.flow.devices.device_indexer import Departed, Switchboard
from notifier.flow.devices.registry import PhoneBook, record
from notifier.metrics import Metrics
from notifier.ports.directory import DirectoryEntry
from notifier.ports.event_log import Logged
from tests.support.fakes.audience import MemoryMemberSets
from tests.support.fakes.bursts import MemoryBursts
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.coordination import MemoryEpochs
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.directory import MemoryDirectory
from tests.support.fakes.event_log import MemoryLog
from tests.support.fakes.retractions import MemoryRetractions

PEOPLE = {"ada": Member(7), "bea": Member(9), "cleo": Member(3 * SHARD_MEMBERS + 5)}
"""The first two share a shard's bitmap, and the third has another writer."""
SHARDS = range(4)


@dataclass
class Exchange:
    clock: ManualClock = field(default_factory=ManualClock)
    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    retractions: MemoryRetractions = field(default_factory=lambda: MemoryRetractions(MemoryBursts()))
    metrics: Metrics = field(default_factory=Metrics)
    others: bool = False
    """Have the partition by now."""

    def __post_init__(self) -> None:
        self.log, self.devices = MemoryLog(self.clock), MemoryDevices(self.clock)
        self.sets = MemoryMemberSets(self.directory)
        self.directory.enrol([DirectoryEntry(user=UserId(name), member=member) for name, member in PEOPLE.items()])

    def book(self, **ports: Any) -> PhoneBook:
        own: dict[str, Any] = {
            "devices": self.devices,
            "directory": self.directory,
            "log": self.log,
            "clock": self.clock,
        }
        return PhoneBook(**(own | ports))

    def switchboard(self, **ports: Any) -> Switchboard:
        own: dict[str, Any] = {"devices": self.devices, "sets": self.sets, "epochs": self.epochs}
        departed = Departed(directory=self.directory, retractions=self.retractions)
        return Switchboard(departed=departed, metrics=self.metrics, holds=lambda: not self.others, **(own | ports))

    def register(self, who: str, what: int | Address = 0, *, book: PhoneBook | None = None, **more: Any) -> Device:
        """A second later than whatever was said before."""
        self.clock.advance(timedelta(seconds=1))
        address = phone(what) if isinstance(what, int) else what
        return (book or self.book()).register(PEOPLE[who], address, locale="en", time_zone="UTC", **more)

    def unregister(self, who: str, device: Device) -> bool:
        self.clock.advance(timedelta(seconds=1))
        return self.book().unregister(PEOPLE[who], device.id)

    def said(self) -> list[Logged]:
        """All that was ever said, as readers get it: by partition."""
        return [
            Logged(partition=name, offset=offset, record=each)
            for name, records in sorted(self.log.partitions.items())
            for offset, each in enumerate(records)
            if each.stream == topics.DEVICES
        ]

    def anew(self, shard: int) -> Logged:
        return Logged(partition="devices/0", offset=0, record=record(DeviceRecord(anew=shard)))

    def hear(self) -> None:
        """The whole log once more, by one reader: whatever has been read already comes again."""
        self.switchboard()(self.said())

    def ringing(self) -> set[str]:
        """By the bitmaps."""
        bitmaps = self.sets.read(SetKind.PUSH, None, SHARDS)
        found = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
        return set(self.directory.users(found).values())

    def having(self, *, of: Collection[str] = tuple(PEOPLE)) -> dict[str, int]:
        """How many each has, by the rows."""
        rows = self.devices.of([PEOPLE[name] for name in of])
        return {name: len(rows[PEOPLE[name]]) for name in of if PEOPLE[name] in rows}

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_bitmaps_{metric}_total") or 0


def phone(number: int) -> Address:
    return FirebaseToken(token=f"{number:040}")
