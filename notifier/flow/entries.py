"""Entries of the directory, by the flags of which something was said."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from notifier.domain.audience.account_flags import Flag, Flagged, Place
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import Account, Directory, Flags

OF_ENTRIES = (Flag.VERIFIED, Flag.DELETED)
"""Flags that an entry says as well."""


def enter(directory: Directory, flags: Flags, numbers: Mapping[UserId, Member]) -> None:
    """By the rows, until they say what was entered: an entry has no stamp, and whoever was replaced, asleep between the
    two, or writes beside another, would leave what was read before."""
    places = [(flag, member) for flag in OF_ENTRIES for member in numbers.values()]
    while other := _other(directory.accounts(numbers), flags.standing(places)):
        directory.enrol(other)


def _other(known: Mapping[UserId, Account], said: Mapping[Place, Flagged]) -> Collection[Account]:
    """The entries as they should be, of those that aren't."""
    entries = [(account, _entered(account, said)) for account in known.values()]
    return [entry for account, entry in entries if entry != account]


def _entered(account: Account, said: Mapping[Place, Flagged]) -> Account:
    on = {flag: said[flag, account.member].on for flag in OF_ENTRIES if (flag, account.member) in said}
    return replace(
        account,
        verified=on.get(Flag.VERIFIED, account.verified),
        deleted=on.get(Flag.DELETED, account.deleted),
    )
