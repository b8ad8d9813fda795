"""In-memory devices; the highest rank of each device counts."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import attrgetter

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, from_offsets, no_members, shard_of
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.ports.leases_queues_throttles_clock import Clock


@dataclass(slots=True)
class MemoryDevices:
    clock: Clock
    kept: dict[DeviceId, DeviceUpdate] = field(default_factory=dict)
    _had: dict[Member, set[DeviceId]] = field(default_factory=lambda: defaultdict(set))
    """Devices to read at a member's next lookup: those of the last lookup, and those written since."""

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        for update in updates:
            self.kept[update.id] = max(self.kept.get(update.id, update), update, key=attrgetter("rank"))
            self._had[update.member].add(update.id)

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        known = {id: self.kept[id] for id in ids if id in self.kept}
        return {id: _holding(update) for id, update in known.items() if update.rank[0] > self._since()}

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        held = {member: self._held(self._had[member], member) for member in members if member in self._had}
        for member, devices in held.items():
            self._had[member] = {device.id for device in devices}
        return {member: devices for member, devices in held.items() if devices}

    def iter_devices(self, platform: Platform, shard: int, members: Bits) -> Iterator[Device]:
        devices = (
            device
            for device in self._of_shard(shard)
            if device.platform is platform and contains(members, device.member)
        )
        return iter(sorted(devices, key=lambda device: (device.member, device.id)))

    def members_with_device(self, shard: int) -> Bits:
        places = {device.member % SHARD_MEMBERS for device in self._of_shard(shard)}
        return from_offsets(places) if places else no_members()

    def _of_shard(self, shard: int) -> Iterator[Device]:
        members = [member for member in self._had if shard_of(member) == shard]
        return chain.from_iterable(self.by_member(members).values())

    def _held(self, ids: Collection[DeviceId], member: Member) -> Sequence[Device]:
        devices_ = [self.kept[id] for id in ids if id in self.kept]
        own = [device_ for device_ in devices_ if isinstance(device_, Device) and device_.member == member]
        return sorted(
            (device for device in own if device.registered_at > self._since()),
            key=lambda device: (device.platform, device.id),
        )

    def _since(self) -> datetime:
        return self.clock.now() - DEVICE_KEPT_FOR


def _holding(update: DeviceUpdate) -> DeviceOwnership:
    at, is_gone, member = update.rank
    return DeviceOwnership(member=member, platform=update.platform, at=at, is_removed=is_gone)
