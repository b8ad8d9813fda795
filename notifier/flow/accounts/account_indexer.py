"""Account indexer: turns account changes into flags, directory entries and VIP bitmaps.

Deleted accounts lose their devices. The stream has one partition and so one reader, because each VIP bitmap covers many
accounts. Rows are written idempotently and in any order. A bitmap is read, changed and written back, so it carries a
fencing token: the late writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.codec import unpack
from notifier.domain.audience.account_flags import AccountChange, AccountRecord, Flag, FlagKey, FlagRow
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, no_members, shard_of, with_members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.domain.ids import Member, UserId
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.flow.indexing.bitmap_updates_and_repair import read_bitmap
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets, ShardBitmap
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.ports.leases_queues_throttles_clock import Epochs
from notifier.ports.user_directory_and_account_flags import AccountFlags, Directory, DirectoryEntry

# Directory entries, derived from the account flags.

DIRECTORY_FLAGS = (Flag.VERIFIED, Flag.DELETED)
"""Flags that are also fields of a directory entry."""


def sync_directory_entries(directory: Directory, flags: AccountFlags, members: Mapping[UserId, Member]) -> None:
    """Update the directory entries until they match the flag rows.

    Entries carry no fencing token, so a stalled or concurrent writer may overwrite an entry with outdated flags. The
    loop therefore reads again after each write.
    """
    flag_keys = [(flag, member) for flag in DIRECTORY_FLAGS for member in members.values()]
    while corrected := _corrected_entries(directory.accounts(members), flags.read_current(flag_keys)):
        directory.enrol(corrected)


def _corrected_entries(
    accounts: Mapping[UserId, DirectoryEntry], flag_rows: Mapping[FlagKey, FlagRow]
) -> Collection[DirectoryEntry]:
    pairs = [(entry, _with_flags(entry, flag_rows)) for entry in accounts.values()]
    return [corrected for entry, corrected in pairs if corrected != entry]


def _with_flags(entry: DirectoryEntry, flag_rows: Mapping[FlagKey, FlagRow]) -> DirectoryEntry:
    """Return the entry with the flags that have rows; the entry keeps its other flags."""
    is_set = {
        flag: flag_rows[flag, entry.member].is_set for flag in DIRECTORY_FLAGS if (flag, entry.member) in flag_rows
    }
    return replace(
        entry,
        verified=is_set.get(Flag.VERIFIED, entry.verified),
        deleted=is_set.get(Flag.DELETED, entry.deleted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountIndexer:
    directory: Directory
    flags: AccountFlags
    device_registry: DeviceRegistry
    sets: MemberSets
    epochs: Epochs
    metrics: Metrics
    owns_records: Callable[[], bool]
    """Asks the log whether this reader still owns the records that it has read."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Apply the changes to flag rows, directory entries, devices and VIP bitmaps.

        Idempotent: after an interruption the records are read again. Raises LogUnavailable if another reader owns the
        records now.
        """
        token = fencing_token(self.epochs.begin("account_indexer"))
        # Check after the epoch has begun: a reader that takes the partition after this check gets a higher token. In
        # the opposite order, we could lose the partition after the check, and then begin the higher epoch.
        if not self.owns_records():
            raise LogUnavailable("Another consumer owns the partition.")
        account_records = [unpack(AccountRecord, logged.record.value) for logged in records]
        changes = [record.change for record in account_records if record.change]
        members = self.directory.assign_numbers({change.user for change in changes})
        self.flags.write([flag for change in changes for flag in change.flag_rows(members[change.user])])
        sync_directory_entries(self.directory, self.flags, members)
        self._remove_devices(changes, members)
        self._write_vip_bitmaps(
            changes,
            members,
            _shards_to_rebuild(account_records, imported=False),
            _shards_to_rebuild(account_records, imported=True),
            token,
        )

    def _remove_devices(self, changes: Sequence[AccountChange], members: Mapping[UserId, Member]) -> None:
        """Remove the devices of deleted accounts.

        Call this after the directory entries are written: a registration that comes later then finds the account
        deleted.
        """
        flag_keys = {(Flag.DELETED, members[change.user]) for change in changes if change.flags.get(Flag.DELETED)}
        if deleted := [member for (_, member), row in self.flags.read_current(flag_keys).items() if row.is_set]:
            self.device_registry.remove_registered(dict.fromkeys(deleted))

    def _write_vip_bitmaps(
        self,
        changes: Sequence[AccountChange],
        members: Mapping[UserId, Member],
        shards_to_repair: Collection[int],
        imported_shards: Collection[int],
        token: FencingToken,
    ) -> None:
        """Write the VIP bitmaps of all shards that the records concern, including unchanged ones.

        The write stores our token, so late writes of a replaced reader lose. The bitmaps of shards to repair, and
        of imported shards, are computed from the rows. In shards to repair, differences from the stored bitmap count as
        drift.
        """
        flag_keys = {(Flag.VIP, members[change.user]) for change in changes if Flag.VIP in change.flags}
        is_vip_by_shard = defaultdict[int, dict[int, bool]](dict)
        for (_, member), row in self.flags.read_current(flag_keys).items():
            is_vip_by_shard[shard_of(member)][member % SHARD_MEMBERS] = row.is_set
        bitmaps = {shard: self.flags.members(Flag.VIP, shard) for shard in imported_shards}
        bitmaps |= {
            shard: self._updated_vips(shard, is_vip_by_offset)
            for shard, is_vip_by_offset in is_vip_by_shard.items()
            if shard not in bitmaps
        }
        bitmaps |= {shard: self._rebuilt_vips(shard) for shard in shards_to_repair}
        if bitmaps:
            shard_bitmaps = (
                ShardBitmap(kind=SetKind.VIP, owner=None, shard=s, bits=bits) for s, bits in bitmaps.items()
            )
            self.sets.put(shard_bitmaps, token)

    def _updated_vips(self, shard: int, is_vip_by_offset: Mapping[int, bool]) -> Bits:
        """Return the shard's bitmap after setting or clearing these bits."""
        before = read_bitmap(self.sets, SetKind.VIP, None, shard)
        # Rebuild an unreadable bitmap from the rows, which have the changes already. Starting from an empty bitmap
        # would lose the other VIPs.
        return self._rebuilt_vips(shard) if before is None else with_members(before, is_vip_by_offset)

    def _rebuilt_vips(self, shard: int) -> Bits:
        """Return the bitmap computed from the flag rows; count its differences from the stored one as drift."""
        before, after = read_bitmap(self.sets, SetKind.VIP, None, shard), self.flags.members(Flag.VIP, shard)
        self.metrics.bitmaps_rebuilt.inc()
        self.metrics.bitmap_drift.inc(count(after ^ (no_members() if before is None else before)))
        return after


def _shards_to_rebuild(records: Iterable[AccountRecord], *, imported: bool) -> Collection[int]:
    return {shard for record in records if record.imported is imported for shard in record.rebuild_shards}
