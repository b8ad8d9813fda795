"""In-memory directory and account flags."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from notifier.domain.audience.account_flags import Flag, FlagKey, FlagRow, members_with_flag
from notifier.domain.audience.bitmap import Bits, shard_of
from notifier.domain.audience.user_ids_to_members import IdRange, require_unique_numbers, split_id
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import DirectoryEntry


class MemoryDirectory:
    def __init__(self) -> None:
        self._accounts: dict[UserId, DirectoryEntry] = {}
        self._users: dict[Member, UserId] = {}
        self._ranges: list[IdRange] = []
        self._free = 0
        """The first unused member number."""
        self._lock = Lock()

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        entries = {user: self._accounts.get(user) or self._in_range(user) for user in users}
        return {user: account for user, account in entries.items() if account is not None}

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        users_ = {member: self._users.get(member) or self._user_in_range(member) for member in members}
        return {member: user for member, user in users_.items() if user is not None}

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        with self._lock:
            known = self.accounts(users)
            new = [user for user in dict.fromkeys(users) if user and user not in known]
            self.enrol([DirectoryEntry(user=user, member=Member(self._free + n)) for n, user in enumerate(new)])
            return {user: account.member for user, account in self.accounts(users).items()}

    def lease(self, count: int) -> Member:
        if count < 1:
            raise ValueError(f"can't lease {count} numbers")
        with self._lock:
            first = Member(self._free)
            self._free += count
            return first

    def next_number(self) -> Member:
        return Member(self._free)

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        wanted = {account.user: account.member for account in accounts}
        known = {user: account.member for user, account in self.accounts(wanted).items()}
        require_unique_numbers(wanted, known, self.users(wanted.values()))
        self._accounts |= {account.user: account for account in accounts}
        self._users |= {account.member: account.user for account in accounts}
        self._free = max(self._free, *(account.member + 1 for account in accounts), 0)

    def enrol_range(self, ids: IdRange) -> None:
        for existing in self._ranges:
            ids.require_disjoint(existing)
        self._ranges = [*(existing for existing in self._ranges if existing != ids), ids]
        self._free = max(self._free, ids.end)

    def id_range_of(self, user: UserId) -> IdRange | None:
        prefix, number = split_id(user) or ("", -1)
        candidates = (ids for ids in self._ranges if ids.prefix == prefix)
        return next((ids for ids in candidates if ids.member_of(number) is not None), None)

    def deleted(self) -> Collection[Member]:
        return [account.member for account in self._accounts.values() if account.deleted]

    def _in_range(self, user: UserId) -> DirectoryEntry | None:
        _, number = split_id(user) or ("", -1)
        ids = self.id_range_of(user)
        member = ids.member_of(number) if ids else None
        return None if member is None else DirectoryEntry(user=user, member=member)

    def _user_in_range(self, member: Member) -> UserId | None:
        return next((user for ids in self._ranges if (user := ids.user_of(member)) is not None), None)


# Account flags.


@dataclass(slots=True)
class MemoryAccountFlags:
    kept: dict[FlagKey, FlagRow] = field(default_factory=dict)

    def write(self, rows: Iterable[FlagRow]) -> None:
        for flag in rows:
            self.kept[flag.key] = max(flag, self.kept.get(flag.key, flag), key=lambda row: row.rank)

    def read_current(self, keys: Collection[FlagKey]) -> Mapping[FlagKey, FlagRow]:
        return {place: self.kept[place] for place in keys if place in self.kept}

    def members(self, flag: Flag, shard: int) -> Bits:
        return members_with_flag(
            row for row in self.kept.values() if row.flag is flag and shard_of(row.member) == shard
        )
