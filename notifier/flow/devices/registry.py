"""Device registry: registers and removes devices, first in the log and then in rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from notifier import topics
from notifier.codec.push import pack_device_record
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.errors import NotFound
from notifier.domain.ids import Member, UserId
from notifier.domain.push.device import (
    Address,
    Device,
    DeviceId,
    DeviceOwnership,
    DeviceRecord,
    DeviceRemoval,
    DeviceUpdate,
    FirebaseToken,
    device_id,
    next_update_time,
    removal_by_provider,
    removal_for_takeover,
    removal_of,
    surplus_removals,
)
from notifier.domain.upstream.graph_changes import shard_key
from notifier.ports.coordination import Clock
from notifier.ports.directory import Directory
from notifier.ports.event_log import EventLog, Record
from notifier.ports.push import Devices


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRegistry:
    """Registers, lists and removes devices. Idempotent. Blocking.

    Every method raises StoreUnavailable; writing methods also raise LogUnavailable and Full. After such an error the
    change may still take effect, at once or when the device indexer reads it.
    """

    devices: Devices
    directory: Directory
    log: EventLog
    clock: Clock

    def member(self, user: UserId, *, create: bool = False) -> Member:
        """Return the member for a device request. With `newcomer`, an unknown user is assigned a member number.

        Raises NotFound, also for a deleted account.
        """
        account = self.directory.accounts([user]).get(user)
        if account is None and create:
            return self.directory.assign_numbers([user])[user]
        if account is None or account.deleted:
            raise NotFound(f"Unknown user: {user}.")
        return account.member

    def list_devices(self, member: Member) -> Sequence[Device]:
        """Return the member's devices, the most recently registered first."""
        devices = self.devices.by_member([member]).get(member, ())
        return sorted(devices, key=lambda device: (device.registered_at, device.id), reverse=True)

    def register(
        self, member: Member, address: Address, *, locale: str, time_zone: str, replaces: FirebaseToken | None = None
    ) -> Device:
        """Register the device for the member and take it from any other member.

        After return, the earlier holder gets no more alerts on it, except those already read for sending. `replaces` is
        an old token of the same member that this one replaces.
        """
        id, old = device_id(address), None if replaces is None else device_id(replaces)
        known = self.devices.read_current([id] if old is None else [id, old])
        before = known.get(id)
        device = Device(
            member=member,
            address=address,
            locale=locale,
            time_zone=time_zone,
            registered_at=next_update_time(self.clock.now(), before),
        )
        lost = list[DeviceRemoval]()
        if before is not None and not before.is_removed and before.member != member:
            # First, and in a record of its own: the earlier holder's bitmap has another writer. A crash after it leaves
            # the device removed from that holder. Once the new member has it, a retry could not identify the old one.
            lost = [removal_for_takeover(before, id, device.registered_at)]
            self.log.append(records(lost))
        self._append_and_write([device], earlier=lost, known=before is not None and not before.is_removed and not lost)
        if old is not None and (removal := self._removal(member, old, known)):
            self._append_and_write([removal])
        # Needs no record of its own: the indexer finds the surplus when it reads the registration.
        self.devices.write(surplus_removals(self.list_devices(member)))
        return device

    def unregister(self, member: Member, id: DeviceId) -> bool:
        """Remove the device; return False and do nothing if it is not the member's."""
        known = self.devices.read_current([id])
        if removal := self._removal(member, id, known):
            self._append_and_write([removal])
        return removal is not None

    def remove_rejected(self, rejected: Mapping[Device, datetime | None]) -> int:
        """Remove devices that their provider rejected.

        `found` maps each device, as it was when the alert was sent, to the time since when the provider has known.
        Devices registered after that time stay. Return how many were removed.
        """
        now = self.clock.now()
        removals = [
            removal for device, at in rejected.items() if (removal := removal_by_provider(device, at, now)) is not None
        ]
        known = self.devices.read_current([removal.id for removal in removals])
        current = [
            replace(removal, member=known[removal.id].member)
            for removal in removals
            if _is_newest(removal, known.get(removal.id))
        ]
        self._append_and_write(current)
        return len(current)

    def remove_registered(self, until: Mapping[Member, datetime | None]) -> int:
        """Remove each member's devices, all or those registered up to the given time; return how many there were."""
        removals = [
            removal_of(device)
            for devices in self.devices.by_member(until).values()
            for device in devices
            if is_covered(device, until)
        ]
        self._append_and_write(removals)
        return len(removals)

    def _removal(self, member: Member, id: DeviceId, known: Mapping[DeviceId, DeviceOwnership]) -> DeviceRemoval | None:
        """Return the removal, or None for any other holder: the device may belong to another account by now."""
        holding = known.get(id)
        if holding is None or holding.is_removed or holding.member != member:
            return None
        return DeviceRemoval(
            id=id, platform=holding.platform, member=member, at=next_update_time(self.clock.now(), holding)
        )

    def _append_and_write(
        self, updates: Sequence[DeviceUpdate], *, earlier: Sequence[DeviceRemoval] = (), known: bool = False
    ) -> None:
        # The log first: after a crash in between, the device indexer reads the record and writes the rows, too. In the
        # opposite order the rows would be written, but the bitmap would never be updated.
        if updates:
            self.log.append(records(updates, known=known))
            self.devices.write([*earlier, *updates])


def _is_newest(removal: DeviceRemoval, holding: DeviceOwnership | None) -> bool:
    return holding is not None and not holding.is_removed and holding.rank <= removal.rank


def records(updates: Sequence[DeviceUpdate], *, known: bool = False) -> Sequence[Record]:
    return [record(DeviceRecord(update=update, is_known_holder=known)) for update in updates]


def record(device_record: DeviceRecord) -> Record:
    """Return the log record, keyed by the shard whose bitmap it changes."""
    shard = (
        shard_of(device_record.update.member) if device_record.update is not None else device_record.rebuild_shard or 0
    )
    return Record(stream=topics.DEVICES, key=shard_key(shard), value=pack_device_record(device_record))


def is_covered(device: Device, until: Mapping[Member, datetime | None]) -> bool:
    last = until[device.member]
    return last is None or device.registered_at <= last
