"""An activity roll-up in memory, user activity, and ports that crash, stall or are corrupt."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from notifier.domain.audience.activity import ACTIVE_SET_KINDS, FOREVER, hour_of
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.flow.indexing.activity_indexer_and_rollup import RollUp
from notifier.flow.leadership import Leadership
from notifier.metrics import Metrics
from notifier.ports.audience import ActiveSetEntry, ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.fakes.activity_member_sets_and_follows import (
    MemoryActiveHours,
    MemoryActiveSets,
    MemoryActivity,
    MemoryMemberSets,
)
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.epochs_leases_queues_throttles import MemoryEpochs, MemoryLeases
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory

MINUTE = timedelta(minutes=1)
HOUR = 60 * MINUTE
DAILY, WEEKLY, MONTHLY = ACTIVE_SET_KINDS
SHARD_COUNT = 3
PORTS = ("directory", "hours", "active_sets", "sets", "epochs", "clock")


@dataclass
class World:
    """Ports in memory; every member number is in one of three shards."""

    clock: ManualClock = field(default_factory=ManualClock)
    activity: MemoryActivity = field(default_factory=MemoryActivity)
    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    active_sets: MemoryActiveSets = field(default_factory=MemoryActiveSets)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)
    leases: MemoryLeases = field(default_factory=MemoryLeases)
    metrics: Metrics = field(default_factory=Metrics)
    hours: MemoryActiveHours = field(init=False)
    sets: MemoryMemberSets = field(init=False)

    def __post_init__(self) -> None:
        self.hours = MemoryActiveHours(self.activity, self.clock)
        self.sets = MemoryMemberSets(self.directory)
        self.directory.enrol([DirectoryEntry(user=UserId("last"), member=Member(SHARD_COUNT * SHARD_MEMBERS - 1))])

    def roll_up(self, owner: str = "a", p2_days: int = 30, **ports: Any) -> RollUp:
        own: dict[str, Any] = {name: ports.get(name, getattr(self, name)) for name in PORTS}
        leadership = Leadership(leases=self.leases, name="rollup", owner=owner, term=2 * MINUTE)
        return RollUp(leadership=leadership, metrics=self.metrics, p2_days=p2_days, **own)

    def visit(self, *users: int, ago: timedelta = timedelta(0)) -> None:
        hour = hour_of(self.clock.now() - ago)
        asyncio.run(self.activity.touch([Member(member) for member in users], hour))

    def active(self, kind: SetKind = DAILY) -> list[int]:
        read = self.sets.read(kind, None, range(SHARD_COUNT))
        return sorted(member for shard, bits in read.items() for member in members(bits, shard))

    def all_active(self) -> list[list[int]]:
        return [self.active(kind) for kind in ACTIVE_SET_KINDS]

    def import_active(self, kind: SetKind, *places: int) -> None:
        """Store active members for good, like an import of the fixture does."""
        self.active_sets.put([ActiveSetEntry(kind=kind, last_hour=FOREVER, shard=0, bits=from_offsets(places))])
        self.sets.put([ShardBitmap(kind=kind, owner=None, shard=0, bits=from_offsets(places))])

    def counted(self, metric: str) -> float:
        return self.metrics.registry.get_sample_value(f"notifier_{metric}_total") or 0


@dataclass
class FailsAtCall:
    """Raises at one call, before its effect or after it. The first call is number 0."""

    port: Any
    nth: int
    after: bool
    calls: Iterator[int] = field(default_factory=count)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            fails = next(self.calls) == self.nth
            if fails and not self.after:
                raise StoreUnavailable()
            result = getattr(self.port, name)(*args)
            if fails:
                raise StoreUnavailable()
            return result

        return called


@dataclass
class StallsBeforeWrite:
    """Runs other code before its first write."""

    port: MemoryMemberSets
    meanwhile: Callable[[], None]
    slept: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def put(self, *args: Any) -> None:
        if not self.slept:
            self.slept = True
            self.meanwhile()
        self.port.put(*args)


@dataclass
class RejectsWrites:
    """Fails the test if a bitmap is written."""

    port: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def put(self, bitmaps: list[object], *_: object) -> None:
        assert bitmaps == []


@dataclass
class Corrupt:
    """Raises Poison for reads that include shard 0."""

    port: MemoryActiveSets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def read_expiring(self, kind: SetKind, hour: int, shards: list[int]) -> Any:
        if 0 in shards:
            raise Poison("A bit has flipped.")
        return self.port.read_expiring(kind, hour, shards)
