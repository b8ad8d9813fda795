"""Account indexer: turns account changes into flag rows, directory entries and VIP bitmaps.

Deleted accounts lose their devices. One reader handles all accounts, since a bitmap covers many. Rows are written
idempotently and in any order. A bitmap is read, changed and written back, so it carries a fencing token: the late
writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from notifier.codec import unpack
from notifier.domain.audience.account_flags import AccountChange, AccountRecord, Flag, Flagged, Place
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, changed, count, nobody, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import Stamp, stamp
from notifier.domain.ids import Member, UserId
from notifier.flow.devices.registry import PhoneBook
from notifier.flow.indexing.bitmaps import stored
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets, ShardBlob
from notifier.ports.coordination import Epochs
from notifier.ports.directory import Directory, DirectoryEntry, Flags
from notifier.ports.event_log import Logged

# Directory entries, derived from the account flags.

OF_ENTRIES = (Flag.VERIFIED, Flag.DELETED)
"""Flags that are also fields of a directory entry."""


def enter(directory: Directory, flags: Flags, numbers: Mapping[UserId, Member]) -> None:
    """Update the directory entries until they match the flag rows.

    Entries carry no fencing token, so a stalled or concurrent writer could otherwise leave an outdated entry.
    """
    places = [(flag, member) for flag in OF_ENTRIES for member in numbers.values()]
    while corrected := _other(directory.accounts(numbers), flags.standing(places)):
        directory.enrol(corrected)


def _other(known: Mapping[UserId, DirectoryEntry], said: Mapping[Place, Flagged]) -> Collection[DirectoryEntry]:
    """Return the corrected entries of accounts whose entries differ from the flags."""
    entries = [(account, _entered(account, said)) for account in known.values()]
    return [entry for account, entry in entries if entry != account]


def _entered(account: DirectoryEntry, said: Mapping[Place, Flagged]) -> DirectoryEntry:
    on = {flag: said[flag, account.member].on for flag in OF_ENTRIES if (flag, account.member) in said}
    return replace(
        account,
        verified=on.get(Flag.VERIFIED, account.verified),
        deleted=on.get(Flag.DELETED, account.deleted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrar:
    directory: Directory
    flags: Flags
    phonebook: PhoneBook
    sets: MemberSets
    epochs: Epochs
    metrics: Metrics
    holds: Callable[[], bool]
    """Asks the log whether this reader still owns the records that it has read."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Apply every change to its row, its entry and its bitmap.

        After an interruption the records are read again, by this reader or another; processing is idempotent.

        Raises LogUnavailable if another reader owns the records by now.
        """
        token = stamp(self.epochs.begin("registrar"))
        # Check after the epoch has begun, and before the read-modify-write, as the graph indexer does.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        account_records = [unpack(AccountRecord, logged.record.value) for logged in records]
        changes = [record.change for record in account_records if record.change]
        numbers = self.directory.number({change.user for change in changes})
        self.flags.write([flag for change in changes for flag in change.flagged(numbers[change.user])])
        enter(self.directory, self.flags, numbers)
        self._hang_up(changes, numbers)
        self._promote(
            changes, numbers, _asked(account_records, imported=False), _asked(account_records, imported=True), token
        )

    def _hang_up(self, changes: Sequence[AccountChange], numbers: Mapping[UserId, Member]) -> None:
        """Drop the devices of deleted accounts. The entry is written first; later registrations check the entry."""
        named = {(Flag.DELETED, numbers[change.user]) for change in changes if change.said.get(Flag.DELETED)}
        if deleted := [member for (_, member), flagged in self.flags.standing(named).items() if flagged.on]:
            self.phonebook.forget(dict.fromkeys(deleted))

    def _promote(
        self,
        changes: Sequence[AccountChange],
        numbers: Mapping[UserId, Member],
        anew: Collection[int],
        added: Collection[int],
        at: Stamp,
    ) -> None:
        """Write the VIP bitmaps, even if unchanged: otherwise an older writer's outdated bitmap could still win."""
        named = {(Flag.VIP, numbers[change.user]) for change in changes if Flag.VIP in change.said}
        by_shard = defaultdict[int, dict[int, bool]](dict)
        for (_, member), flagged in self.flags.standing(named).items():
            by_shard[shard_of(member)][member % SHARD_MEMBERS] = flagged.on
        bitmaps = {shard: self.flags.members(Flag.VIP, shard) for shard in added}
        bitmaps |= {shard: self._vips(shard, places) for shard, places in by_shard.items() if shard not in bitmaps}
        bitmaps |= {shard: self._vips_anew(shard) for shard in anew}
        if bitmaps:
            blobs = (ShardBlob(kind=SetKind.VIP, owner=None, shard=s, bits=bits) for s, bits in bitmaps.items())
            self.sets.put(blobs, at)

    def _vips(self, shard: int, places: Mapping[int, bool]) -> Bits:
        before = stored(self.sets, SetKind.VIP, None, shard)
        # Never start from an empty bitmap: the rows have all VIPs, including these.
        return self._vips_anew(shard) if before is None else changed(before, places)

    def _vips_anew(self, shard: int) -> Bits:
        before, after = stored(self.sets, SetKind.VIP, None, shard), self.flags.members(Flag.VIP, shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after ^ (nobody() if before is None else before)))
        return after


def _asked(told: Iterable[AccountRecord], *, imported: bool) -> Collection[int]:
    return {shard for record in told if record.imported is imported for shard in record.anew}
