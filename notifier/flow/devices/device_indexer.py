"""The switchboard: what is said of devices becomes rows, and from them the bitmaps of who has one.

One writer for each shard: the one who reads its partition of the log. The rows bear any order and any repetition by
themselves; a bitmap is read, changed and written back, so it carries a stamp, by which a reader that was replaced and
doesn't know it yet loses.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from notifier.codec.push import unpack_device_record
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, changed, count, holds, nobody, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.retraction import erased_trail
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import Stamp, stamp
from notifier.domain.ids import Member
from notifier.domain.push.device import Device, DeviceRecord, Gone, gone, too_many
from notifier.flow.indexing.bitmaps import stored
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets, ShardBlob
from notifier.ports.coordination import Epochs
from notifier.ports.directory import Directory
from notifier.ports.event_log import Logged
from notifier.ports.push import Devices
from notifier.ports.retractions import Retractions

# The departed: whose account was deleted, or erased since, keeps no device, also where it was registered meanwhile.


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    directory: Directory
    retractions: Retractions

    def removals(self, devices: Collection[Device]) -> Sequence[Gone]:
        """What takes away those that nobody is left to be told through. Asked behind their rows: who deletes an account
        looks for rows behind its flag, and who erases one behind its word, so that one of the two sees the other."""
        users = self.directory.users({device.member for device in devices})
        accounts = self.directory.accounts(users.values())
        words = self.retractions.standing({erased_trail(user) for user in users.values()})
        deleted = {account.member for account in accounts.values() if account.deleted}
        erased = {accounts[word.author].member: word.at for word in words.values() if word.author in accounts}
        return [
            gone(device)
            for device in devices
            if device.member in deleted or (device.member in erased and device.registered_at <= erased[device.member])
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switchboard:
    devices: Devices
    departed: Departed
    sets: MemberSets
    epochs: Epochs
    metrics: Metrics
    holds: Callable[[], bool]
    """Whether what was read from the log is still this reader's to do; asked of the log."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every word is in its rows and in its bitmap when it returns. Cut off anywhere, the records come again, to
        this reader or to another, and whoever does it again does the same.

        Raises LogUnavailable where somebody else has them by now.
        """
        at = stamp(self.epochs.begin("switchboard"))
        # Asked when the epoch is begun, and before anything is read that is written back, as the indexer does.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        told = [unpack_device_record(logged.record.value) for logged in records]
        words = [one.word for one in told if one.word is not None]
        self.devices.write(words)
        registered = [word for word in words if isinstance(word, Device)]
        # Behind the rows, as who deletes an account looks for rows behind its flag: one of the two sees the other.
        self.devices.write([*self.departed.removals(registered), *self._too_many({word.member for word in registered})])
        self._connect(told, at)

    def _too_many(self, members: Collection[Member]) -> Sequence[Gone]:
        return [word for some in self.devices.of(members).values() for word in too_many(some)]

    def _connect(self, told: Collection[DeviceRecord], at: Stamp) -> None:
        """Written also where nothing changed: an older writer's, with what was true before, would come through. Not for
        who had the device before, as nearly all of those who register had: there an older writer has nothing to say
        that isn't said again by one of the other records."""
        said = [(one.word.member, one.known) for one in told if one.word is not None]
        sure = dict(said) | {member: False for member, known in said if not known}
        anew = {one.anew for one in told if one.anew is not None}
        owning = self.devices.of(sure)
        by_shard = defaultdict[int, dict[Member, bool]](dict)
        for member in sure:
            by_shard[shard_of(member)][member] = member in owning
        found = {shard: self._anew(shard) for shard in anew}
        for shard, owns in by_shard.items():
            if shard not in found and (bits := self._changed(shard, owns, sure)) is not None:
                found[shard] = bits
        if found:
            blobs = (ShardBlob(kind=SetKind.PUSH, owner=None, shard=s, bits=bits) for s, bits in found.items())
            self.sets.put(blobs, at)

    def _changed(self, shard: int, owns: Mapping[Member, bool], sure: Mapping[Member, bool]) -> Bits | None:
        """None where it needn't be written."""
        before = stored(self.sets, SetKind.PUSH, None, shard)
        if before is None:  # never silently empty: the rows know who has one, and have these already
            return self._anew(shard)
        if all(sure[member] and holds(before, member) is has for member, has in owns.items()):
            return None
        return changed(before, {member % SHARD_MEMBERS: has for member, has in owns.items()})

    def _anew(self, shard: int) -> Bits:
        before, after = stored(self.sets, SetKind.PUSH, None, shard), self.devices.people(shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after ^ (nobody() if before is None else before)))
        return after
