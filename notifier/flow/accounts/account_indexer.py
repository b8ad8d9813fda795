"""Account indexer: turns account changes into flag rows, directory entries and VIP bitmaps.

Deleted accounts lose their devices. One reader handles all accounts, since a bitmap covers many. Rows are written
idempotently and in any order. A bitmap is read, changed and written back, so it carries a fencing token: the late
writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.codec import unpack
from notifier.domain.audience.account_flags import AccountChange, AccountRecord, Flag, FlagKey, FlagRow
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, no_members, shard_of, with_members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import FencingToken, fencing_token
from notifier.domain.ids import Member, UserId
from notifier.flow.devices.registry import DeviceRegistry
from notifier.flow.indexing.bitmaps import read_bitmap
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets, ShardBlob
from notifier.ports.coordination import Epochs
from notifier.ports.directory import AccountFlags, Directory, DirectoryEntry
from notifier.ports.event_log import Logged

# Directory entries, derived from the account flags.

DIRECTORY_FLAGS = (Flag.VERIFIED, Flag.DELETED)
"""Flags that are also fields of a directory entry."""


def sync_directory_entries(directory: Directory, flags: AccountFlags, numbers: Mapping[UserId, Member]) -> None:
    """Update the directory entries until they match the flag rows.

    Entries carry no fencing token, so a stalled or concurrent writer could otherwise leave an outdated entry.
    """
    places = [(flag, member) for flag in DIRECTORY_FLAGS for member in numbers.values()]
    while corrected := _outdated_entries(directory.accounts(numbers), flags.read_current(places)):
        directory.enrol(corrected)


def _outdated_entries(
    known: Mapping[UserId, DirectoryEntry], flag_rows: Mapping[FlagKey, FlagRow]
) -> Collection[DirectoryEntry]:
    """Return the corrected entries of accounts whose entries differ from the flags."""
    entries = [(account, _with_flags(account, flag_rows)) for account in known.values()]
    return [entry for account, entry in entries if entry != account]


def _with_flags(account: DirectoryEntry, flag_rows: Mapping[FlagKey, FlagRow]) -> DirectoryEntry:
    on = {
        flag: flag_rows[flag, account.member].is_set for flag in DIRECTORY_FLAGS if (flag, account.member) in flag_rows
    }
    return replace(
        account,
        verified=on.get(Flag.VERIFIED, account.verified),
        deleted=on.get(Flag.DELETED, account.deleted),
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
        """Apply every change to its row, its entry and its bitmap.

        After an interruption the records are read again, by this reader or another; processing is idempotent.

        Raises LogUnavailable if another reader owns the records by now.
        """
        token = fencing_token(self.epochs.begin("account_indexer"))
        # Check after the epoch has begun, and before the read-modify-write, as the graph indexer does.
        if not self.owns_records():
            raise LogUnavailable("Another consumer owns the partition.")
        account_records = [unpack(AccountRecord, logged.record.value) for logged in records]
        changes = [record.change for record in account_records if record.change]
        numbers = self.directory.assign_numbers({change.user for change in changes})
        self.flags.write([flag for change in changes for flag in change.flag_rows(numbers[change.user])])
        sync_directory_entries(self.directory, self.flags, numbers)
        self._remove_devices(changes, numbers)
        self._write_vip_bitmaps(
            changes,
            numbers,
            _shards_to_rebuild(account_records, imported=False),
            _shards_to_rebuild(account_records, imported=True),
            token,
        )

    def _remove_devices(self, changes: Sequence[AccountChange], numbers: Mapping[UserId, Member]) -> None:
        """Drop the devices of deleted accounts. The entry is written first; later registrations check the entry."""
        named = {(Flag.DELETED, numbers[change.user]) for change in changes if change.flags.get(Flag.DELETED)}
        if deleted := [member for (_, member), flagged in self.flags.read_current(named).items() if flagged.is_set]:
            self.device_registry.remove_registered(dict.fromkeys(deleted))

    def _write_vip_bitmaps(
        self,
        changes: Sequence[AccountChange],
        numbers: Mapping[UserId, Member],
        rebuild: Collection[int],
        added: Collection[int],
        token: FencingToken,
    ) -> None:
        """Write the VIP bitmaps, even if unchanged: otherwise an older writer's outdated bitmap could still win."""
        named = {(Flag.VIP, numbers[change.user]) for change in changes if Flag.VIP in change.flags}
        by_shard = defaultdict[int, dict[int, bool]](dict)
        for (_, member), flagged in self.flags.read_current(named).items():
            by_shard[shard_of(member)][member % SHARD_MEMBERS] = flagged.is_set
        bitmaps = {shard: self.flags.members(Flag.VIP, shard) for shard in added}
        bitmaps |= {shard: self._vips(shard, places) for shard, places in by_shard.items() if shard not in bitmaps}
        bitmaps |= {shard: self._rebuilt_vips(shard) for shard in rebuild}
        if bitmaps:
            blobs = (ShardBlob(kind=SetKind.VIP, owner=None, shard=s, bits=bits) for s, bits in bitmaps.items())
            self.sets.put(blobs, token)

    def _vips(self, shard: int, places: Mapping[int, bool]) -> Bits:
        before = read_bitmap(self.sets, SetKind.VIP, None, shard)
        # Never start from an empty bitmap: the rows have all VIPs, including these.
        return self._rebuilt_vips(shard) if before is None else with_members(before, places)

    def _rebuilt_vips(self, shard: int) -> Bits:
        before, after = read_bitmap(self.sets, SetKind.VIP, None, shard), self.flags.members(Flag.VIP, shard)
        self.metrics.bitmaps_rebuilt.inc()
        self.metrics.bitmap_drift.inc(count(after ^ (no_members() if before is None else before)))
        return after


def _shards_to_rebuild(records: Iterable[AccountRecord], *, imported: bool) -> Collection[int]:
    return {shard for record in records if record.imported is imported for shard in record.rebuild_shards}
