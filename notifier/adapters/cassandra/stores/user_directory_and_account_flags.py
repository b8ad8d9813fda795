"""Stores the user directory, member numbers and account flags.

Single accounts have a table by user id and a table by member number. So do id ranges: ids with the same prefix
and successive numbers, such as u0, u1 and u2. An id range has one row in each table, however many accounts it contains.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import Any

from notifier.adapters.cassandra.driver.batching import BUFFERED_ROWS, Row, batched_rows, batches, put_by_partition
from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.codec import pack, unpack
from notifier.domain.audience.account_flags import Flag, FlagKey, FlagRow, members_with_flag
from notifier.domain.audience.bitmap import Bits, block_of, shard_of
from notifier.domain.audience.user_ids_to_members import (
    IdRange,
    directory_bucket_of,
    members_in_ranges,
    require_unique_numbers,
    split_id,
    users_in_ranges,
)
from notifier.domain.errors import NumberTaken, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import MIN_LEASED_NUMBERS, DirectoryEntry

# Member numbers: each process leases successive numbers by compare-and-set, and assigns numbers from its own lease.

_SELECT_NEXT_NUMBER = "SELECT next_number FROM counters WHERE name = ?"
_INSERT_COUNTER = "INSERT INTO counters (name, next_number) VALUES (?, ?) IF NOT EXISTS"
_UPDATE_COUNTER = "UPDATE counters SET next_number = ? WHERE name = ? IF next_number = ?"


class RisingCounter:
    """Counter that only rises.

    If the response of a compare-and-set is lost, the methods raise StoreUnavailable. Numbers that were leased
    nevertheless are never used.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def lease(self, count: int) -> int:
        """Lease `count` numbers, at least one, and return the first of them."""
        if count < 1:
            raise ValueError(f"can't lease {count} numbers")
        while True:
            number = self.next_number()
            if self._try_raise(number, number + count):
                return number
            # Another process has leased these numbers.

    def raise_to(self, end: int) -> None:
        """Raise the counter to `end`, unless it is higher. No later lease then has a number below `end`."""
        while (number := self.next_number()) < end and not self._try_raise(number, end):
            pass

    def next_number(self) -> int:
        """Return the number at which the next lease begins."""
        rows = self._cluster.query(_SELECT_NEXT_NUMBER, (self._name,), profile=SERIAL)
        return rows[0].next_number if rows else 0

    def _try_raise(self, current: int, end: int) -> bool:
        if current:
            return self._cluster.compare_and_set(_UPDATE_COUNTER, (end, self._name, current))
        return self._cluster.compare_and_set(_INSERT_COUNTER, (self._name, end))


class MemberNumbers:
    """Assigns member numbers. Thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._counter = RisingCounter(cluster, "members")
        self._unassigned = range(0)
        """Leased numbers that are not assigned yet."""
        self._lock = Lock()

    def take(self, count: int) -> Sequence[int]:
        with self._lock:
            leftover = self._unassigned[:count]
            self._unassigned = self._unassigned[count:]
            missing = count - len(leftover)
            if not missing:
                return leftover
            lease_size = max(missing, MIN_LEASED_NUMBERS)
            first = self._counter.lease(lease_size)
            self._unassigned = range(first + missing, first + lease_size)
            return [*leftover, *range(first, first + missing)]

    def require_unreserved(self, members: Collection[Member]) -> None:
        """Raise NumberTaken for numbers that this process has leased and may assign to other users."""
        with self._lock:
            if reserved := [member for member in members if member in self._unassigned]:
                raise NumberTaken(f"Number {reserved[0]} is reserved for another user.")

    def lease(self, count: int) -> Member:
        return Member(self._counter.lease(count))

    def raise_to(self, end: int) -> None:
        self._counter.raise_to(end)

    def next_number(self) -> Member:
        return Member(self._counter.next_number())


SELECT_ACCOUNT = "SELECT user, member, account FROM users WHERE bucket = ? AND user = ?"
SELECT_RANGE_OF_ID = """
    SELECT prefix, first_id, count, member FROM user_ranges
    WHERE list_name = 'ranges' AND prefix = ? AND first_id <= ? LIMIT 1
"""

USERS_PER_QUERY = 64
"""Users in one query, Paxos round or batch. 64 ids of maximum length take 16 KB in ASCII, and up to 64 KB in UTF-8."""

_SELECT_ACCOUNTS = "SELECT user, member, account FROM users WHERE bucket = ? AND user IN ?"
_SELECT_USERS = "SELECT member, user FROM members WHERE block = ? AND member IN ?"
_SELECT_ID_RANGE_OF_MEMBER = """
    SELECT prefix, first_id, count, member FROM member_ranges WHERE list_name = 'ranges' AND member <= ? LIMIT 1
"""
_SELECT_DELETED = "SELECT shard, member FROM deleted_members WHERE shard = ? AND member = ?"
_INSERT_NUMBER = "INSERT INTO users (bucket, user, member) VALUES (?, ?, ?) IF NOT EXISTS"
_PUT_USER = "INSERT INTO users (bucket, user, member, account) VALUES (?, ?, ?, ?)"
_PUT_MEMBER = "INSERT INTO members (block, member, user) VALUES (?, ?, ?)"
_PUT_DELETED = "INSERT INTO deleted_members (shard, member) VALUES (?, ?)"
_DELETE_DELETED = "DELETE FROM deleted_members WHERE shard = ? AND member = ?"
_PUT_MEMBER_RANGE = (
    "INSERT INTO member_ranges (list_name, member, count, prefix, first_id) VALUES ('ranges', ?, ?, ?, ?)"
)
_PUT_USER_RANGE = "INSERT INTO user_ranges (list_name, prefix, first_id, count, member) VALUES ('ranges', ?, ?, ?, ?)"

_FIRST_COLUMN = itemgetter(0)


class CassandraDirectory:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = MemberNumbers(cluster)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        """Return the accounts of the users. Single accounts override id ranges. No account has the empty id."""
        accounts = self._single_accounts(users)
        members = members_in_ranges((user for user in users if user not in accounts), self._ranges_of_ids)
        return accounts | {user: DirectoryEntry(user=user, member=member) for user, member in members.items()}

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        blocks: defaultdict[int, list[Member]] = defaultdict(list)
        for member in members:
            blocks[block_of(member)].append(member)
        rows = [row for rows in self._cluster.query_each(_SELECT_USERS, blocks.items()) for row in rows]
        users = {Member(row.member): UserId(row.user) for row in rows}
        return users | users_in_ranges(
            (member for member in members if member not in users), self._id_ranges_of_members
        )

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        members = {user: account.member for user, account in self.accounts(users).items()}
        while new := [user for user in dict.fromkeys(users) if user and user not in members]:
            assigned = dict(zip(new, map(Member, self._numbers.take(len(new))), strict=True))
            # Write the table by member first, so that each user who has a number can be found by that number. After a
            # crash in between, or if another process assigns a number first, some rows are wrong: their user has no
            # number, or a different one. The numbers in such rows are used nowhere.
            self._put_members(assigned)
            members |= self._assign(assigned)
        return members

    def lease(self, count: int) -> Member:
        return self._numbers.lease(count)

    def next_number(self) -> Member:
        return self._numbers.next_number()

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        # Write the member rows first, so that each account can be found by its number. Mark deleted members before the
        # accounts are written, and unmark restored members after that: a deleted member must not get an alert in
        # between. After an interruption the caller enrols the accounts again, and writes the same rows.
        latest = {account.user: account for account in accounts}.values()
        shard_keys = {account: (shard_of(account.member), account.member) for account in latest}
        requested = {account.user: account.member for account in latest}
        existing = {user: account.member for user, account in self.accounts(requested).items()}
        require_unique_numbers(requested, existing, self.users(requested.values()))
        self._numbers.require_unreserved(requested.values())
        self._numbers.raise_to(max((account.member + 1 for account in latest), default=0))
        self._put_members(requested)
        self._cluster.query_each(_PUT_DELETED, [key for account, key in shard_keys.items() if account.deleted])
        self._cluster.query_each(
            _PUT_USER,
            [(directory_bucket_of(account.user), account.user, account.member, pack(account)) for account in latest],
        )
        self._unmark_deleted([key for account, key in shard_keys.items() if not account.deleted])

    def enrol_range(self, ids: IdRange) -> None:
        # Write the table by member first, as in `assign_numbers`. After an interruption the caller enrols the range
        # again.
        for query, values in (
            (SELECT_RANGE_OF_ID, (ids.prefix, ids.last)),
            (_SELECT_ID_RANGE_OF_MEMBER, (ids.end - 1,)),
        ):
            if rows := self._cluster.query(query, values):
                ids.require_disjoint(id_range_from(rows))
        self._numbers.raise_to(ids.end)
        self._cluster.query(_PUT_MEMBER_RANGE, (ids.first_member, ids.count, ids.prefix, ids.first))
        self._cluster.query(_PUT_USER_RANGE, (ids.prefix, ids.first, ids.count, ids.first_member))

    def id_range_of(self, user: UserId) -> IdRange | None:
        if (parts := split_id(user)) is None:
            return None
        [range_] = self._ranges_of_ids([parts])
        return range_ if range_ and range_.member_of(parts[1]) is not None else None

    def _ranges_of_ids(self, id_parts: Sequence[tuple[str, int]]) -> Sequence[IdRange | None]:
        return [
            id_range_from(rows) if rows else None for rows in self._cluster.query_each(SELECT_RANGE_OF_ID, id_parts)
        ]

    def _id_ranges_of_members(self, members: Sequence[Member]) -> Sequence[IdRange | None]:
        results = self._cluster.query_each(_SELECT_ID_RANGE_OF_MEMBER, [(member,) for member in members])
        return [id_range_from(rows) if rows else None for rows in results]

    def _single_accounts(self, users: Iterable[UserId], profile: object = PLAIN) -> dict[UserId, DirectoryEntry]:
        queries = [(bucket, list(bucket_users)) for bucket, bucket_users in _by_bucket(users)]
        accounts = [
            account_of(row)
            for rows in self._cluster.query_each(_SELECT_ACCOUNTS, queries, profile=profile)
            for row in rows
        ]
        return {account.user: account for account in accounts}

    def _assign(self, numbers: Mapping[UserId, Member]) -> dict[UserId, Member]:
        """Try to assign the numbers, and return the stored numbers of these users. Some users may still have none."""
        groups = list(_by_bucket(numbers))
        applied = self._cluster.compare_and_set_batches(
            _INSERT_NUMBER, [[(bucket, user, numbers[user]) for user in users] for bucket, users in groups]
        )
        if None in applied:
            raise StoreUnavailable("Unknown whether some users were given a number.")
        assigned = {
            user: numbers[user]
            for (_, users), was_applied in zip(groups, applied, strict=True)
            if was_applied
            for user in users
        }
        existing = self._single_accounts([user for user in numbers if user not in assigned], SERIAL)
        return assigned | {user: account.member for user, account in existing.items()}

    def _put_members(self, members: Mapping[UserId, Member]) -> None:
        rows = sorted((block_of(member), member, user) for user, member in members.items())
        blocks = [batch for _, block in groupby(rows, _FIRST_COLUMN) for batch in batches(block, USERS_PER_QUERY)]
        self._cluster.query_all(batched_rows(_PUT_MEMBER, batch) for batch in blocks)

    def _unmark_deleted(self, shard_keys: Collection[tuple[int, Member]]) -> None:
        """Remove members from the table of deleted members. Each key is a shard and a member.

        Delete only rows that exist. A tombstone for each new member would slow all reads of the shard for ten days.
        """
        existing = [row for rows in self._cluster.query_each(_SELECT_DELETED, shard_keys) for row in rows]
        self._cluster.query_each(_DELETE_DELETED, [(row.shard, row.member) for row in existing])


def account_of(row: Any) -> DirectoryEntry:
    """Return the account of a row. Without a value in the column `account`, the fields have their defaults."""
    if row.account is None:
        return DirectoryEntry(user=UserId(row.user), member=Member(row.member))
    return unpack(DirectoryEntry, row.account)


def id_range_from(rows: list[Any]) -> IdRange:
    [row] = rows
    return IdRange(prefix=row.prefix, first=row.first_id, count=row.count, first_member=Member(row.member))


def _by_bucket(users: Iterable[UserId]) -> Iterator[tuple[int, Sequence[UserId]]]:
    """Yield groups of at most USERS_PER_QUERY users, each with their bucket. The empty id is left out."""
    keys = sorted((directory_bucket_of(user), user) for user in set(users) if user)
    for bucket, group in groupby(keys, _FIRST_COLUMN):
        yield from ((bucket, batch) for batch in batches((user for _, user in group), USERS_PER_QUERY))


# Account flags: a row for each member and flag that was ever reported.

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins,
# which is the one that sets the flag.
_WRITE_FLAG = "INSERT INTO account_flags (flag, shard, member, is_on) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_SELECT_FLAGS = "SELECT member, is_on, WRITETIME(is_on) AS sequence FROM account_flags WHERE flag = ? AND shard = ?"
SELECT_CURRENT_FLAGS = f"{_SELECT_FLAGS} AND member IN ?"


class CassandraAccountFlags:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, rows: Iterable[FlagRow]) -> None:
        for batch in batches(map(_flag_parameters, rows), BUFFERED_ROWS):
            put_by_partition(self._cluster, _WRITE_FLAG, batch)

    def read_current(self, keys: Collection[FlagKey]) -> Mapping[FlagKey, FlagRow]:
        by_shard: defaultdict[tuple[Flag, int], list[Member]] = defaultdict(list)
        for flag, member in keys:
            by_shard[flag, shard_of(member)].append(member)
        queries = [(str(flag), shard, sorted(members)) for (flag, shard), members in by_shard.items()]
        results = zip(by_shard, self._cluster.query_each(SELECT_CURRENT_FLAGS, queries), strict=True)
        flag_rows = [_flag_row(flag, row) for (flag, _), rows in results for row in rows]
        return {row.key: row for row in flag_rows}

    def members(self, flag: Flag, shard: int) -> Bits:
        return members_with_flag(_flag_row(flag, row) for row in self._cluster.query(_SELECT_FLAGS, (str(flag), shard)))


def _flag_parameters(row: FlagRow) -> Row:
    return str(row.flag), shard_of(row.member), row.member, row.is_set, row.sequence


def _flag_row(flag: Flag, row: Any) -> FlagRow:
    return FlagRow(flag=flag, member=Member(row.member), is_set=row.is_on, sequence=row.sequence)
