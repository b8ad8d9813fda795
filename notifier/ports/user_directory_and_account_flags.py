"""Ports of the directory (user IDs and member numbers) and of the account flags."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.audience.account_flags import Flag, FlagKey, FlagRow
from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Member, UserId

MIN_LEASED_NUMBERS = 1_024
"""Minimum size of a lease by `assign_numbers` in Cassandra. Numbers left when the process exits are never used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryEntry:
    user: UserId
    member: Member
    deleted: bool = False
    verified: bool = False


class Directory(Protocol):
    """Maps user IDs to member numbers and back. Durable; a number is never reused. Blocking.

    Every method raises StoreUnavailable, and DiskFull for writes.
    """

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        """Return the entries of the users that have one, deleted users included."""
        ...

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]: ...

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        """Return the permanent member number of each user; assign one to users that have none. The empty ID gets none.

        Idempotent: after an interruption, or with concurrent calls, every caller gets the same numbers. Some
        numbers may stay unused; they are in no set.
        """
        ...

    def lease(self, count: int) -> Member:
        """Lease `count` consecutive numbers (at least one) and return the first. Only the caller may assign them."""
        ...

    def next_number(self) -> Member:
        """Return the first number above all assigned and leased ones."""
        ...

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        """Write the entries, replacing existing ones.

        Each number must be the user's own, leased by the caller, or above all assigned and leased numbers. The call
        itself leases the numbers above. Raises NumberTaken if a number belongs to another user, or the user has another
        number.
        """
        ...

    def enrol_range(self, ids: IdRange) -> None:
        """Write one entry for the range, whatever its size. Entries of single accounts override it.

        Call this before any ID of the range has a number. The numbers obey the same rules as in `enrol`. Raises
        NumberTaken if the range overlaps with another one.
        """
        ...

    def id_range_of(self, user: UserId) -> IdRange | None: ...


# Account flags as the account service reports them. The bitmaps of VIPs can be rebuilt from these rows.


class AccountFlags(Protocol):
    """Flag rows. Durable and idempotent. Blocking. Every method raises StoreUnavailable, and DiskFull for writes."""

    def write(self, rows: Iterable[FlagRow]) -> None:
        """Store each flag unless the stored one ranks higher, so calls may come in any order."""
        ...

    def read_current(self, keys: Collection[FlagKey]) -> Mapping[FlagKey, FlagRow]:
        """Return the current flags; flags that were never stored are missing."""
        ...

    def members(self, flag: Flag, shard: int) -> Bits:
        """Return all members of the shard with the flag set, according to the current rows."""
        ...
