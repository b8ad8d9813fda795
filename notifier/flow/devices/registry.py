"""The phone book: what is said of devices is in the log, and then in rows; who lost one is told through it no more."""

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
    """Everything raises StoreUnavailable, and what writes LogUnavailable and Full, too: then it may still come to
    stand, at once or once the switchboard has heard of it. Said again, it is the same.
    """

    devices: Devices
    directory: Directory
    log: EventLog
    clock: Clock

    def member(self, user: UserId, *, newcomer: bool = False) -> Member:
        """Who may ask of devices; a newcomer of whom nothing was heard before is given a number. Raises NotFound, also
        for an account that was deleted."""
        account = self.directory.accounts([user]).get(user)
        if account is None and newcomer:
            return self.directory.number([user])[user]
        if account is None or account.deleted:
            raise NotFound(f"The user is {user}.")
        return account.member

    def of(self, member: Member) -> Sequence[Device]:
        """The last that was registered first."""
        found = self.devices.of([member]).get(member, ())
        return sorted(found, key=lambda device: (device.registered_at, device.id), reverse=True)

    def register(
        self, member: Member, address: Address, *, locale: str, time_zone: str, replaces: FirebaseToken | None = None
    ) -> Device:
        """The member's from now on, and nobody else's: when it returns, whoever had it isn't told through it any more,
        but for what was read to be sent before. `replaces` is a token of the member's that this one stands in for."""
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
            # First, and by itself: the bitmap that it is about has another writer. Who dies behind it has taken the
            # device from whoever left the phone; once another has it, nobody who says it again could tell who that was.
            lost = [taken(before, id, device.registered_at)]
            self.log.append(records(lost))
        self._say([device], behind=lost, known=before is not None and not before.gone and not lost)
        if old is not None and (left := self._left(member, old, known)):
            self._say([left])
        # No record of its own: whoever reads that of the registration sees, too, that it is one too many.
        self.devices.write(too_many(self.of(member)))
        return device

    def unregister(self, member: Member, id: DeviceId) -> bool:
        """False where it isn't the member's: then nothing is done."""
        known = self.devices.standing([id])
        if word := self._left(member, id, known):
            self._say([word])
        return word is not None

    def drop(self, found: Mapping[Device, datetime | None]) -> int:
        """By their provider, of devices as they were when the alert was sent, each with since when the provider knows.

        Those that were registered after that stay; says how many went.
        """
        now = self.clock.now()
        words = [word for device, at in found.items() if (word := dropped(device, at, now)) is not None]
        known = self.devices.standing([word.id for word in words])
        gone = [replace(word, member=known[word.id].member) for word in words if _goes(word, known.get(word.id))]
        self._say(gone)
        return len(gone)

    def forget(self, until: Mapping[Member, datetime | None]) -> int:
        """All that each of them has, or all that was registered until then; says how many that was."""
        words = [gone(device) for some in self.devices.of(until).values() for device in some if over(device, until)]
        self._say(words)
        return len(words)

    def _left(self, member: Member, id: DeviceId, known: Mapping[DeviceId, Holding]) -> Gone | None:
        """Who isn't its holder can't say so: on a phone that another account has by now a log-out comes too late."""
        holding = known.get(id)
        if holding is None or holding.gone or holding.member != member:
            return None
        return Gone(id=id, platform=holding.platform, member=member, at=later(self.clock.now(), holding))

    def _say(self, words: Sequence[DeviceWord], *, behind: Sequence[Gone] = (), known: bool = False) -> None:
        # The log first: whoever dies in between has left the word where the switchboard finds it, who writes the rows,
        # too. The other way round the rows would stand, and the bitmap would never hear of it.
        if words:
            self.log.append(records(words, known=known))
            self.devices.write([*behind, *words])


def _goes(word: Gone, holding: Holding | None) -> bool:
    return holding is not None and not holding.gone and holding.rank <= word.rank


def records(words: Sequence[DeviceWord], *, known: bool = False) -> Sequence[Record]:
    return [record(DeviceRecord(word=word, known=known)) for word in words]


def record(said: DeviceRecord) -> Record:
    """By the shard of whose bitmap it is about."""
    shard = shard_of(said.word.member) if said.word is not None else said.anew or 0
    return Record(stream=topics.DEVICES, key=shard_key(shard), value=pack_device_record(said))


def over(device: Device, until: Mapping[Member, datetime | None]) -> bool:
    last = until[device.member]
    return last is None or device.registered_at <= last
