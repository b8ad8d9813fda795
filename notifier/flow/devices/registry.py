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
    DeviceRecord,
    DeviceWord,
    FirebaseToken,
    Gone,
    Holding,
    device_id,
    dropped,
    gone,
    later,
    taken,
    too_many,
)
from notifier.domain.upstream.graph_changes import shard_key
from notifier.ports.coordination import Clock
from notifier.ports.directory import Directory
from notifier.ports.event_log import EventLog, Record
from notifier.ports.push import Devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneBook:
    """Registers, lists and removes devices. Idempotent. Blocking.

    Every method raises StoreUnavailable; writing methods also raise LogUnavailable and Full. After such an error the
    change may still take effect, at once or when the device indexer reads it.
    """

    devices: Devices
    directory: Directory
    log: EventLog
    clock: Clock

    def member(self, user: UserId, *, newcomer: bool = False) -> Member:
        """Return the member for a device request. With `newcomer`, an unknown user is assigned a member number.

        Raises NotFound, also for a deleted account.
        """
        account = self.directory.accounts([user]).get(user)
        if account is None and newcomer:
            return self.directory.number([user])[user]
        if account is None or account.deleted:
            raise NotFound(f"The user is {user}.")
        return account.member

    def of(self, member: Member) -> Sequence[Device]:
        """Return the member's devices, the most recently registered first."""
        devices = self.devices.of([member]).get(member, ())
        return sorted(devices, key=lambda device: (device.registered_at, device.id), reverse=True)

    def register(
        self, member: Member, address: Address, *, locale: str, time_zone: str, replaces: FirebaseToken | None = None
    ) -> Device:
        """Register the device for the member and take it from any other member.

        After return, the earlier holder gets no more alerts on it, except those already read for sending. `replaces` is
        an old token of the same member that this one replaces.
        """
        id, old = device_id(address), None if replaces is None else device_id(replaces)
        known = self.devices.standing([id] if old is None else [id, old])
        before = known.get(id)
        device = Device(
            member=member,
            address=address,
            locale=locale,
            time_zone=time_zone,
            registered_at=later(self.clock.now(), before),
        )
        lost = list[Gone]()
        if before is not None and not before.gone and before.member != member:
            # First, and in a record of its own: the earlier holder's bitmap has another writer. A crash after it leaves
            # the device removed from that holder. Once the new member has it, a retry could not identify the old one.
            lost = [taken(before, id, device.registered_at)]
            self.log.append(records(lost))
        self._say([device], behind=lost, known=before is not None and not before.gone and not lost)
        if old is not None and (left := self._left(member, old, known)):
            self._say([left])
        # Needs no record of its own: the indexer finds the surplus when it reads the registration.
        self.devices.write(too_many(self.of(member)))
        return device

    def unregister(self, member: Member, id: DeviceId) -> bool:
        """Remove the device; return False and do nothing if it is not the member's."""
        known = self.devices.standing([id])
        if removal := self._left(member, id, known):
            self._say([removal])
        return removal is not None

    def drop(self, found: Mapping[Device, datetime | None]) -> int:
        """Remove devices that their provider rejected.

        `found` maps each device, as it was when the alert was sent, to the time since when the provider has known.
        Devices registered after that time stay. Return how many were removed.
        """
        now = self.clock.now()
        removals = [removal for device, at in found.items() if (removal := dropped(device, at, now)) is not None]
        known = self.devices.standing([removal.id for removal in removals])
        current = [
            replace(removal, member=known[removal.id].member)
            for removal in removals
            if _goes(removal, known.get(removal.id))
        ]
        self._say(current)
        return len(current)

    def forget(self, until: Mapping[Member, datetime | None]) -> int:
        """Remove each member's devices, all or those registered up to the given time; return how many there were."""
        removals = [
            gone(device) for devices in self.devices.of(until).values() for device in devices if over(device, until)
        ]
        self._say(removals)
        return len(removals)

    def _left(self, member: Member, id: DeviceId, known: Mapping[DeviceId, Holding]) -> Gone | None:
        """Return the removal, or None for any other holder: the device may belong to another account by now."""
        holding = known.get(id)
        if holding is None or holding.gone or holding.member != member:
            return None
        return Gone(id=id, platform=holding.platform, member=member, at=later(self.clock.now(), holding))

    def _say(self, words: Sequence[DeviceWord], *, behind: Sequence[Gone] = (), known: bool = False) -> None:
        # The log first: after a crash in between, the device indexer reads the record and writes the rows, too. In the
        # opposite order the rows would be written, but the bitmap would never be updated.
        if words:
            self.log.append(records(words, known=known))
            self.devices.write([*behind, *words])


def _goes(word: Gone, holding: Holding | None) -> bool:
    return holding is not None and not holding.gone and holding.rank <= word.rank


def records(words: Sequence[DeviceWord], *, known: bool = False) -> Sequence[Record]:
    return [record(DeviceRecord(word=update, known=known)) for update in words]


def record(said: DeviceRecord) -> Record:
    """Return the log record, keyed by the shard whose bitmap it changes."""
    shard = shard_of(said.word.member) if said.word is not None else said.anew or 0
    return Record(stream=topics.DEVICES, key=shard_key(shard), value=pack_device_record(said))


def over(device: Device, until: Mapping[Member, datetime | None]) -> bool:
    last = until[device.member]
    return last is None or device.registered_at <= last
