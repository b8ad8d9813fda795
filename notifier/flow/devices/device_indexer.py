"""Device indexer: turns registrations and removals of devices into rows and bitmaps.

Each shard's bitmap has one writer: the reader of its log partition. Rows are written idempotently and in any order. A
bitmap is read, changed and written back, so it carries a fencing token: the late writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from notifier.codec.devices_send_log_suppressions import unpack_device_record
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, count, no_members, shard_of, with_members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.retraction import erasure_key
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.domain.ids import Member
from notifier.domain.push.device import Device, DeviceRecord, DeviceRemoval, removal_of, surplus_removals
from notifier.flow.indexing.bitmap_updates_and_repair import read_bitmap
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets, ShardBitmap
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.leases_queues_throttles_clock import Epochs
from notifier.ports.moderation_and_retractions import Retractions
from notifier.ports.push import Devices
from notifier.ports.user_directory_and_account_flags import Directory

# Removal of the devices of deleted or erased accounts, including devices registered concurrently.


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedAccountDevices:
    directory: Directory
    retractions: Retractions

    def removals(self, devices: Collection[Device]) -> Sequence[DeviceRemoval]:
        """Return removals of devices whose account is deleted, or was erased after they were registered.

        Call this after writing the rows of the devices.

        The process that deletes or erases an account first stores the flag or retraction, and then reads the account's
        device rows. So either this call finds the flag or retraction, or that process finds the rows.
        """
        users = self.directory.users({device.member for device in devices})
        accounts = self.directory.accounts(users.values())
        erasures = self.retractions.read_current({erasure_key(user) for user in users.values()})
        deleted = {account.member for account in accounts.values() if account.deleted}
        erased_at = {
            accounts[erasure.author].member: erasure.at for erasure in erasures.values() if erasure.author in accounts
        }
        return [
            removal_of(device)
            for device in devices
            if device.member in deleted
            or (device.member in erased_at and device.registered_at <= erased_at[device.member])
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIndexer:
    devices: Devices
    departed_accounts: DepartedAccountDevices
    sets: MemberSets
    epochs: Epochs
    metrics: Metrics
    owns_records: Callable[[], bool]
    """Asks the log whether this reader still owns the records that it has read."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Apply every registration and removal to the rows and the bitmaps.

        Idempotent: after an interruption the records are read again. Raises LogUnavailable if another reader owns the
        records now.
        """
        token = fencing_token(self.epochs.begin("device_indexer"))
        # Check after the epoch has begun: a reader that takes the partition after this check gets a higher token. In
        # the opposite order, we could lose the partition after the check, and then begin the higher epoch.
        if not self.owns_records():
            raise LogUnavailable("Another consumer owns the partition.")
        device_records = [unpack_device_record(logged.record.value) for logged in records]
        updates = [record.update for record in device_records if record.update is not None]
        self.devices.write(updates)
        registered = [update for update in updates if isinstance(update, Device)]
        # `removals` must be called after the rows are written.
        self.devices.write(
            [
                *self.departed_accounts.removals(registered),
                *self._surplus_removals({update.member for update in registered}),
            ]
        )
        self._write_bitmaps(device_records, token)

    def _surplus_removals(self, members: Collection[Member]) -> Sequence[DeviceRemoval]:
        return [
            removal for devices in self.devices.by_member(members).values() for removal in surplus_removals(devices)
        ]

    def _write_bitmaps(self, records: Collection[DeviceRecord], token: FencingToken) -> None:
        """Write the bitmaps of the shards that the records concern.

        Most records register a device that the member has already. The bitmap of a shard with only such records is
        skipped if it is correct. Any other bitmap is written even if it is unchanged: the write stores our token, so
        late writes of a replaced reader lose. A late write concerns only records that the replaced reader had not
        committed. This reader gets those records again, so bitmaps of other shards do not need our token.
        """
        updates = [(record.update.member, record.is_known_holder) for record in records if record.update is not None]
        was_holder_by_member = dict(updates) | {
            member: False for member, is_known_holder in updates if not is_known_holder
        }
        shards_to_rebuild = {record.rebuild_shard for record in records if record.rebuild_shard is not None}
        devices_by_member = self.devices.by_member(was_holder_by_member)
        has_device_by_shard = defaultdict[int, dict[Member, bool]](dict)
        for member in was_holder_by_member:
            has_device_by_shard[shard_of(member)][member] = member in devices_by_member
        bitmaps = {shard: self._rebuilt_bitmap(shard) for shard in shards_to_rebuild}
        for shard, has_device_by_member in has_device_by_shard.items():
            if (
                shard not in bitmaps
                and (bits := self._updated_bitmap(shard, has_device_by_member, was_holder_by_member)) is not None
            ):
                bitmaps[shard] = bits
        if bitmaps:
            shard_bitmaps = (
                ShardBitmap(kind=SetKind.WITH_DEVICE, owner=None, shard=s, bits=bits) for s, bits in bitmaps.items()
            )
            self.sets.put(shard_bitmaps, token)

    def _updated_bitmap(
        self, shard: int, has_device_by_member: Mapping[Member, bool], was_holder_by_member: Mapping[Member, bool]
    ) -> Bits | None:
        """Return the shard's bitmap after setting or clearing the members' bits; None if it need not be written.

        `was_holder_by_member` is True for a member whose records all register a device that the member has already.
        """
        before = read_bitmap(self.sets, SetKind.WITH_DEVICE, None, shard)
        if before is None:  # unreadable: starting from an empty bitmap would lose the other members
            return self._rebuilt_bitmap(shard)
        if all(
            was_holder_by_member[member] and contains(before, member) is has
            for member, has in has_device_by_member.items()
        ):
            return None
        return with_members(before, {member % SHARD_MEMBERS: has for member, has in has_device_by_member.items()})

    def _rebuilt_bitmap(self, shard: int) -> Bits:
        """Return the bitmap computed from the device rows; count its differences from the stored one as drift."""
        before, after = (
            read_bitmap(self.sets, SetKind.WITH_DEVICE, None, shard),
            self.devices.members_with_device(shard),
        )
        self.metrics.bitmaps_rebuilt.inc()
        self.metrics.bitmap_drift.inc(count(after ^ (no_members() if before is None else before)))
        return after
