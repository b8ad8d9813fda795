"""An account indexer with ports in memory, and the log records that it reads."""

from dataclasses import dataclass, field
from typing import Any

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.account_flags import AccountChange, AccountRecord, Flag
from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import UserId
from notifier.flow.accounts.account_indexer import AccountIndexer
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import Logged, Record
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.user_directory_and_account_flags import MemoryAccountFlags, MemoryDirectory

SHARDS = range(4)


@dataclass
class AccountWorld:
    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    flags: MemoryAccountFlags = field(default_factory=MemoryAccountFlags)
    sets: MemoryMemberSets = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    clock: ManualClock = field(default_factory=ManualClock)
    device_registry: DeviceRegistry = field(init=False)
    records: list[Logged] = field(default_factory=list)
    lost_partition: bool = False
    """Whether another process has the partition by now."""

    def __post_init__(self) -> None:
        self.sets = MemoryMemberSets(self.directory)
        devices, log = MemoryDevices(self.clock), MemoryEventLog(self.clock)
        self.device_registry = DeviceRegistry(devices=devices, directory=self.directory, log=log, clock=self.clock)

    def account_indexer(self, **ports: Any) -> AccountIndexer:
        own: dict[str, Any] = {
            "directory": self.directory,
            "flags": self.flags,
            "device_registry": self.device_registry,
            "sets": self.sets,
            "epochs": self.epochs,
        }
        return AccountIndexer(metrics=self.metrics, owns_records=lambda: not self.lost_partition, **(own | ports))

    def change(self, user: str, *, sequence: int = 0, **flags: bool) -> Logged:
        change = AccountChange(
            id=EventId("accounts", str(len(self.records))),
            user=UserId(user),
            sequence=sequence or len(self.records) + 1,
            flags={Flag(name): on for name, on in flags.items()},
        )
        return self._logged(user, AccountRecord(change=change))

    def rebuild(self, *shards: int) -> Logged:
        return self._logged("", AccountRecord(rebuild_shards=shards))

    def _logged(self, key: str, account_record: AccountRecord) -> Logged:
        record = Record(stream=topics.USERS, key=key, value=pack(account_record))
        self.records.append(Logged(partition="users/0", offset=len(self.records), record=record))
        return self.records[-1]

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_bitmaps_{metric}_total") or 0

    def vips(self) -> set[str]:
        bitmaps = self.sets.read(SetKind.VIP, None, SHARDS)
        vips = [member for shard, bits in bitmaps.items() for member in members(bits, shard)]
        return set(self.directory.users(vips).values())

    def entries(self) -> dict[str, tuple[bool, bool]]:
        """Return whether each account is verified, and whether it is deleted."""
        known = self.directory.accounts([UserId(name) for name in ("ada", "bea", "cleo")])
        return {name: (account.verified, account.deleted) for name, account in known.items()}
