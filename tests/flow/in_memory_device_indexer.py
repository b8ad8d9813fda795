"""A device registry and indexer in memory, and devices by bitmap and row."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from notifier import topics
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import Address, Device, DeviceRecord, FirebaseToken
from notifier.flow.devices.device_indexer import DepartedAccountDevices, DeviceIndexer
from notifier.flow.devices.device_registry import DeviceRegistry, log_record
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.retractions_and_text_erasure import MemoryRetractions
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory

PEOPLE = {"ada": Member(7), "bea": Member(9), "cleo": Member(3 * SHARD_MEMBERS + 5)}
"""The first two share a shard's bitmap; the third is in a shard of another writer."""
SHARDS = range(4)


@dataclass
class DeviceWorld:
    clock: ManualClock = field(default_factory=ManualClock)
    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    retractions: MemoryRetractions = field(default_factory=lambda: MemoryRetractions(MemoryBursts()))
    metrics: Metrics = field(default_factory=Metrics)
    lost_partition: bool = False
    """Whether another process has the partition by now."""

    def __post_init__(self) -> None:
        self.log, self.devices = MemoryEventLog(self.clock), MemoryDevices(self.clock)
        self.sets = MemoryMemberSets(self.directory)
        self.directory.enrol([DirectoryEntry(user=UserId(name), member=member) for name, member in PEOPLE.items()])

    def registry(self, **ports: Any) -> DeviceRegistry:
        own: dict[str, Any] = {
            "devices": self.devices,
            "directory": self.directory,
            "log": self.log,
            "clock": self.clock,
        }
        return DeviceRegistry(**(own | ports))

    def indexer(self, **ports: Any) -> DeviceIndexer:
        own: dict[str, Any] = {"devices": self.devices, "sets": self.sets, "epochs": self.epochs}
        departed = DepartedAccountDevices(directory=self.directory, retractions=self.retractions)
        return DeviceIndexer(
            departed_accounts=departed,
            metrics=self.metrics,
            owns_records=lambda: not self.lost_partition,
            **(own | ports),
        )

    def register(
        self, user: str, device: int | Address = 0, *, registry: DeviceRegistry | None = None, **options: Any
    ) -> Device:
        """Register a device one second later than the last change."""
        self.clock.advance(timedelta(seconds=1))
        address = address_of(device) if isinstance(device, int) else device
        return (registry or self.registry()).register(PEOPLE[user], address, locale="en", time_zone="UTC", **options)

    def unregister(self, user: str, device: Device) -> bool:
        self.clock.advance(timedelta(seconds=1))
        return self.registry().unregister(PEOPLE[user], device.id)

    def device_records(self) -> list[Logged]:
        """Return all device records of the log, partition by partition."""
        return [
            Logged(partition=name, offset=offset, record=device_record)
            for name, records in sorted(self.log.partitions.items())
            for offset, device_record in enumerate(records)
            if device_record.stream == topics.DEVICES
        ]

    def rebuild_order(self, shard: int) -> Logged:
        return Logged(partition="devices/0", offset=0, record=log_record(DeviceRecord(rebuild_shard=shard)))

    def index_all(self) -> None:
        """Index the whole log with a new indexer, including records that were indexed before."""
        self.indexer()(self.device_records())

    def alertable(self) -> set[str]:
        """Return the users with a device by the bitmaps."""
        bitmaps = self.sets.read(SetKind.WITH_DEVICE, None, SHARDS)
        alertable = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
        return set(self.directory.users(alertable).values())

    def device_counts(self, *, of: Collection[str] = tuple(PEOPLE)) -> dict[str, int]:
        """Return the number of devices of each user by the rows."""
        rows = self.devices.by_member([PEOPLE[name] for name in of])
        return {name: len(rows[PEOPLE[name]]) for name in of if PEOPLE[name] in rows}

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_bitmaps_{metric}_total") or 0


def address_of(number: int) -> Address:
    return FirebaseToken(token=f"{number:040}")
