"""An import of accounts: numbers, flags and entries as they are read, and then the bitmaps of VIPs are asked for."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.account_flags import AccountRecord, Flag
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.follow_import import EVERYBODY, Keys, by_account, touched
from notifier.domain.audience.id_ranges import IdRange, successive
from notifier.domain.ids import Member, UserId
from notifier.domain.upstream.graph_changes import few, shard_key
from notifier.domain.users.import_rows import AccountRow
from notifier.flow.accounts.account_indexer import OF_ENTRIES, enter
from notifier.ports.directory import LEASED, Directory, Flags
from notifier.ports.event_log import EventLog, Record
from notifier.ports.imports import Batch

AT_ONCE = 4_096
"""Entries that are compared with the rows: their transaction lets others in behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    directory: Directory
    flags: Flags
    log: EventLog
    ranges: bool
    """Ids that follow one another get one entry, whatever their number. Nobody else gives any of them a number."""

    def read(self, rows: Batch[AccountRow]) -> Keys:
        """Of each row the account has its number, its flags and its entry."""
        members = self._numbers(dict.fromkeys(row.user for row in rows.rows))
        self.flags.write(flag for row in rows.rows for flag in row.flagged(members[row.user]))
        said = [row.user for row in rows.rows if not row.said.keys().isdisjoint(OF_ENTRIES)]
        for first in range(0, len(said), AT_ONCE):
            enter(self.directory, self.flags, {user: members[user] for user in said[first : first + AT_ONCE]})
        return touched((EVERYBODY, shard_of(members[row.user])) for row in rows.rows if Flag.VIP in row.said)

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Behind the rows: the registrar, who makes the bitmaps by them, finds them."""
        return (partial(self._ask, some[EVERYBODY]) for some in by_account(keys))

    def _ask(self, shards: Iterable[int]) -> None:
        asked = [AccountRecord(anew=some, imported=True) for some in few(shards)]
        self.log.append([Record(stream=topics.USERS, key=shard_key(one.anew[0]), value=pack(one)) for one in asked])

    def _numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        if self.ranges:
            known = self.directory.accounts(users)
            # Cut off behind the lease, its numbers are nobody's.
            for prefix, first, count in successive((user for user in users if user not in known), LEASED):
                at = self.directory.lease(count)
                self.directory.enrol_range(IdRange(prefix=prefix, first=first, count=count, member=at))
        return self.directory.number(users)
