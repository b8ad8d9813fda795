"""Device registry: writes registrations and removals to the log, then to rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from notifier import topics
from notifier.codec.devices_send_log_suppressions import pack_device_record
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
from notifier.domain.upstream.graph_stream_records import shard_key
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import Devices
from notifier.ports.user_directory_and_account_flags import Directory


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRegistry:
    """Registers, lists and removes devices. Idempotent. Blocking.

    Raises StoreUnavailable; writing methods also raise LogUnavailable and DiskFull. After such an error the change may
    still take effect, at once or when the device indexer reads it.
    """

    devices: Devices
    directory: Directory
    log: EventLog
    clock: Clock

    def member(self, user: UserId, *, create: bool = False) -> Member:
        """Return the member for a device request. With `create`, an unknown user is assigned a member number.

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
        """Register the device for the member, and take it from any other member.

        After that, the other member gets no more alerts on the device, except from workers that have already read its
        row. `replaces` is an old token of the app. The device with this token is removed if it is the member's.
        """
        id, replaced_id = device_id(address), None if replaces is None else device_id(replaces)
        ownerships = self.devices.read_current([id] if replaced_id is None else [id, replaced_id])
        previous = ownerships.get(id)
        device = Device(
            member=member,
            address=address,
            locale=locale,
            time_zone=time_zone,
            registered_at=next_update_time(self.clock.now(), previous),
        )
        takeovers = list[DeviceRemoval]()
        if previous is not None and not previous.is_removed and previous.member != member:
            # The removal is a record of its own, because another reader may write the bitmap of the other member.
            # Append it first: after the registration, a repeated request could not tell which member had the device.
            takeovers = [removal_for_takeover(previous, id, device.registered_at)]
            self.log.append(log_records(takeovers))
        self._append_and_write(
            [device],
            appended_earlier=takeovers,
            is_known_holder=previous is not None and not previous.is_removed and not takeovers,
        )
        if replaced_id is not None and (removal := self._removal(member, replaced_id, ownerships)):
            self._append_and_write([removal])
        # Remove surplus devices. No log record is needed: the indexer also applies the limit when it reads the
        # registration.
        self.devices.write(surplus_removals(self.list_devices(member)))
        return device

    def unregister(self, member: Member, id: DeviceId) -> bool:
        """Remove the device; return False and do nothing if it is not the member's."""
        ownerships = self.devices.read_current([id])
        if removal := self._removal(member, id, ownerships):
            self._append_and_write([removal])
        return removal is not None

    def remove_rejected(self, rejected_since: Mapping[Device, datetime | None]) -> int:
        """Remove devices that their provider rejected. Return how many were removed.

        `rejected_since` has the devices as they were when the alert was sent, each with the time since which the
        provider rejects it, if known. Devices that were registered after that time stay.
        """
        now = self.clock.now()
        removals = [
            removal
            for device, at in rejected_since.items()
            if (removal := removal_by_provider(device, at, now)) is not None
        ]
        ownerships = self.devices.read_current([removal.id for removal in removals])
        current_removals = [
            replace(removal, member=ownerships[removal.id].member)
            for removal in removals
            if _is_newest(removal, ownerships.get(removal.id))
        ]
        self._append_and_write(current_removals)
        return len(current_removals)

    def remove_registered(self, until_by_member: Mapping[Member, datetime | None]) -> int:
        """Remove the devices that each member registered up to the given time; None removes all its devices.

        Return how many were removed.
        """
        removals = [
            removal_of(device)
            for devices in self.devices.by_member(until_by_member).values()
            for device in devices
            if _was_registered_until(device, until_by_member[device.member])
        ]
        self._append_and_write(removals)
        return len(removals)

    def _removal(
        self, member: Member, id: DeviceId, ownerships: Mapping[DeviceId, DeviceOwnership]
    ) -> DeviceRemoval | None:
        ownership = ownerships.get(id)
        if ownership is None or ownership.is_removed or ownership.member != member:
            return None
        return DeviceRemoval(
            id=id, platform=ownership.platform, member=member, at=next_update_time(self.clock.now(), ownership)
        )

    def _append_and_write(
        self,
        updates: Sequence[DeviceUpdate],
        *,
        appended_earlier: Sequence[DeviceRemoval] = (),
        is_known_holder: bool = False,
    ) -> None:
        """Append the updates to the log, and write their rows and those of removals appended earlier.

        `is_known_holder` says that the member had the device before, so the bitmap probably needs no change.
        """
        # Append first. If a crash or an outage prevents the rows, the device indexer reads the record and writes them.
        # In the opposite order, the rows would be written, but no indexer would update the bitmap.
        if updates:
            self.log.append(log_records(updates, is_known_holder=is_known_holder))
            self.devices.write([*appended_earlier, *updates])


def _is_newest(removal: DeviceRemoval, ownership: DeviceOwnership | None) -> bool:
    return ownership is not None and not ownership.is_removed and ownership.rank <= removal.rank


def log_records(updates: Sequence[DeviceUpdate], *, is_known_holder: bool = False) -> Sequence[Record]:
    return [log_record(DeviceRecord(update=update, is_known_holder=is_known_holder)) for update in updates]


def log_record(device_record: DeviceRecord) -> Record:
    """Return the log record, keyed by the shard whose bitmap it changes."""
    shard = (
        shard_of(device_record.update.member) if device_record.update is not None else device_record.rebuild_shard or 0
    )
    return Record(stream=topics.DEVICES, key=shard_key(shard), value=pack_device_record(device_record))


def _was_registered_until(device: Device, until: datetime | None) -> bool:
    return until is None or device.registered_at <= until
