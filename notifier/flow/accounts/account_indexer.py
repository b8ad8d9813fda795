"""The registrar: what is said of an account becomes rows of flags, and from them its entry in the directory and the
bitmaps of the VIPs; one that was deleted loses its devices.

One reader for all accounts, since a bitmap is of many. The rows bear any order and any repetition by themselves; a
bitmap is read, changed and written back, so it carries a stamp, by which a reader that was replaced and doesn't know it
yet loses.
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

# Entries of the directory, by the flags of which something was said.

OF_ENTRIES = (Flag.VERIFIED, Flag.DELETED)
"""Flags that an entry says as well."""


def enter(directory: Directory, flags: Flags, numbers: Mapping[UserId, Member]) -> None:
    """By the rows, until they say what was entered: an entry has no stamp, and whoever was replaced, asleep between the
    two, or writes beside another, would leave what was read before."""
    places = [(flag, member) for flag in OF_ENTRIES for member in numbers.values()]
    while other := _other(directory.accounts(numbers), flags.standing(places)):
        directory.enrol(other)


def _other(known: Mapping[UserId, DirectoryEntry], said: Mapping[Place, Flagged]) -> Collection[DirectoryEntry]:
    """The entries as they should be, of those that aren't."""
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
    """Whether what was read from the log is still this reader's to do; asked of the log."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every word is in its row, its entry and its bitmap when it returns. Cut off anywhere, the records come again,
        to this reader or to another, and whoever does it again does the same.

        Raises LogUnavailable where somebody else has them by now.
        """
        at = stamp(self.epochs.begin("registrar"))
        # Asked when the epoch is begun, and before anything is read that is written back, as the indexer does.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        told = [unpack(AccountRecord, logged.record.value) for logged in records]
        changes = [one.change for one in told if one.change]
        numbers = self.directory.number({change.user for change in changes})
        self.flags.write([flag for change in changes for flag in change.flagged(numbers[change.user])])
        enter(self.directory, self.flags, numbers)
        self._hang_up(changes, numbers)
        self._promote(changes, numbers, _asked(told, imported=False), _asked(told, imported=True), at)

    def _hang_up(self, changes: Sequence[AccountChange], numbers: Mapping[UserId, Member]) -> None:
        """Behind the entry: who registers a device from here on is asked whether the account is still there."""
        named = {(Flag.DELETED, numbers[change.user]) for change in changes if change.said.get(Flag.DELETED)}
        if deleted := [member for (_, member), said in self.flags.standing(named).items() if said.on]:
            self.phonebook.forget(dict.fromkeys(deleted))

    def _promote(
        self,
        changes: Sequence[AccountChange],
        numbers: Mapping[UserId, Member],
        anew: Collection[int],
        added: Collection[int],
        at: Stamp,
    ) -> None:
        """Written also where nothing changed: an older writer's, with what was true before, would come through."""
        named = {(Flag.VIP, numbers[change.user]) for change in changes if Flag.VIP in change.said}
        by_shard = defaultdict[int, dict[int, bool]](dict)
        for (_, member), said in self.flags.standing(named).items():
            by_shard[shard_of(member)][member % SHARD_MEMBERS] = said.on
        found = {shard: self.flags.members(Flag.VIP, shard) for shard in added}
        found |= {shard: self._vips(shard, places) for shard, places in by_shard.items() if shard not in found}
        found |= {shard: self._vips_anew(shard) for shard in anew}
        if found:
            blobs = (ShardBlob(kind=SetKind.VIP, owner=None, shard=s, bits=bits) for s, bits in found.items())
            self.sets.put(blobs, at)

    def _vips(self, shard: int, places: Mapping[int, bool]) -> Bits:
        before = stored(self.sets, SetKind.VIP, None, shard)
        # Never silently empty: the rows know who is one, and have these already.
        return self._vips_anew(shard) if before is None else changed(before, places)

    def _vips_anew(self, shard: int) -> Bits:
        before, after = stored(self.sets, SetKind.VIP, None, shard), self.flags.members(Flag.VIP, shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after ^ (nobody() if before is None else before)))
        return after


def _asked(told: Iterable[AccountRecord], *, imported: bool) -> Collection[int]:
    return {shard for one in told if one.imported is imported for shard in one.anew}
