"""Stores the user directory and account flags in core.db.

Users whose ids have the same prefix and successive numbers, such as u0, u1 and u2, can share one row, an id range.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from notifier.adapters.sqlite.connections_and_transactions import Database, batches
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec import pack, unpack
from notifier.domain.audience.account_flags import Flag, FlagKey, FlagRow, members_with_flag
from notifier.domain.audience.bitmap import Bits, shard_of
from notifier.domain.audience.user_ids_to_members import (
    IdRange,
    members_in_ranges,
    require_unique_numbers,
    split_id,
    users_in_ranges,
)
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import DirectoryEntry

_SELECT_ACCOUNTS = "SELECT user, member, account FROM users WHERE user IN (SELECT value FROM json_each(?))"
_SELECT_MEMBERS = "SELECT user, member FROM users WHERE user IN (SELECT value FROM json_each(?))"
_SELECT_USERS = "SELECT member, user FROM members WHERE member IN (SELECT value FROM json_each(?))"
_PUT_USER = "INSERT OR REPLACE INTO users (user, member, account, deleted) VALUES (?, ?, ?, ?)"
_INSERT_NUMBER = "INSERT OR IGNORE INTO users (user, member, account, deleted) VALUES (?, ?, ?, 0)"
_PUT_MEMBER = "INSERT OR REPLACE INTO members (member, user) VALUES (?, ?)"
_PUT_RANGE = "INSERT OR REPLACE INTO user_ranges (prefix, first_id, count, member) VALUES (?, ?, ?, ?)"
_SELECT_RANGE_OF_ID = (
    "SELECT prefix, first_id, count, member FROM user_ranges WHERE prefix = ? AND first_id <= ? ORDER BY 2 DESC LIMIT 1"
)
_SELECT_ID_RANGE_OF_MEMBER = (
    "SELECT prefix, first_id, count, member FROM user_ranges WHERE member <= ? ORDER BY 4 DESC LIMIT 1"
)
_SELECT_NEXT_NUMBER = "SELECT next_number FROM counters WHERE name = 'members'"
_RAISE_NEXT_NUMBER = "UPDATE counters SET next_number = max(next_number, ?) WHERE name = 'members'"

USERS_PER_TRANSACTION = 16_384
"""Such a transaction takes some tenths of a second."""

DEFAULT_ACCOUNT = b""
"""Stored account data of a user who only has a number. Such a row takes a fifth of the space."""


class SqliteDirectory:
    def __init__(self, db: Database) -> None:
        self._db = db

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        with self._db.read() as c:
            return accounts_of(c, users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        with self._db.read() as c:
            return _users(c, members)

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        # Read first: a number never changes, so a call that needs no new number needn't wait for the write lock.
        with self._db.read() as c:
            members = _members(c, users)
        if all(user in members for user in users if user):
            return members
        for batch in batches(
            (user for user in dict.fromkeys(users) if user and user not in members), USERS_PER_TRANSACTION
        ):
            members |= self._assign_numbers(batch)
        return members

    def _assign_numbers(self, users: Sequence[UserId]) -> Mapping[UserId, Member]:
        with self._db.write() as c:
            first, changes_before = _lease(c, len(users)), c.total_changes
            assigned = {user: Member(first + n) for n, user in enumerate(users)}
            # Insert in key order, so that successive rows change the same page.
            c.executemany(_INSERT_NUMBER, [(user, assigned[user], DEFAULT_ACCOUNT) for user in sorted(assigned)])
            if c.total_changes - changes_before < len(assigned):
                # A concurrent call has numbered some of the users. Our numbers for them stay unused.
                stored = _members(c, users)
                assigned = {user: member for user, member in assigned.items() if stored[user] == member}
            else:
                stored = assigned
            c.executemany(_PUT_MEMBER, [(member, user) for user, member in assigned.items()])
            return stored

    def lease(self, count: int) -> Member:
        if count < 1:
            raise ValueError(f"can't lease {count} numbers")
        with self._db.write() as c:
            return _lease(c, count)

    def next_number(self) -> Member:
        with self._db.read() as c:
            return Member(c.execute(_SELECT_NEXT_NUMBER).fetchone()[0])

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        requested = {account.user: account.member for account in accounts}
        with self._db.write() as c:
            require_unique_numbers(requested, _members(c, requested), _users(c, requested.values()))
            _write_entries(c, accounts)
            c.executemany(_RAISE_NEXT_NUMBER, [(account.member + 1,) for account in accounts])

    def enrol_range(self, ids: IdRange) -> None:
        with self._db.write() as c:
            for cursor in (
                c.execute(_SELECT_RANGE_OF_ID, (ids.prefix, ids.last)),
                c.execute(_SELECT_ID_RANGE_OF_MEMBER, (ids.end - 1,)),
            ):
                for row in cursor.fetchall():
                    ids.require_disjoint(_range(row))
            c.execute(_PUT_RANGE, (ids.prefix, ids.first, ids.count, ids.first_member))
            c.execute(_RAISE_NEXT_NUMBER, (ids.end,))

    def id_range_of(self, user: UserId) -> IdRange | None:
        with self._db.read() as c:
            return id_range_of(c, user)


def accounts_of(c: sqlite3.Connection, users: Collection[UserId]) -> dict[UserId, DirectoryEntry]:
    """Return the accounts. A user's own row overrides an id range."""
    rows = c.execute(_SELECT_ACCOUNTS, (json.dumps(list(users)),))
    accounts = {UserId(user): _account(UserId(user), member, blob) for user, member, blob in rows}
    members = members_in_ranges((user for user in users if user not in accounts), partial(_ranges_of_ids, c))
    return accounts | {user: DirectoryEntry(user=user, member=member) for user, member in members.items()}


def _members(c: sqlite3.Connection, users: Collection[UserId]) -> dict[UserId, Member]:
    """Return the numbers of the users. A user's own row overrides an id range."""
    members = dict[UserId, Member](c.execute(_SELECT_MEMBERS, (json.dumps(list(users)),)).fetchall())
    return members | members_in_ranges((user for user in users if user not in members), partial(_ranges_of_ids, c))


def _account(user: UserId, member: int, blob: bytes) -> DirectoryEntry:
    return unpack(DirectoryEntry, blob) if blob != DEFAULT_ACCOUNT else DirectoryEntry(user=user, member=Member(member))


def _users(c: sqlite3.Connection, members: Collection[Member]) -> dict[Member, UserId]:
    users = {Member(member): UserId(user) for member, user in c.execute(_SELECT_USERS, (json.dumps(list(members)),))}
    return users | users_in_ranges(
        (member for member in members if member not in users), partial(_id_ranges_of_members, c)
    )


def _lease(c: sqlite3.Connection, count: int) -> Member:
    [first] = c.execute(_SELECT_NEXT_NUMBER).fetchone()
    c.execute(_RAISE_NEXT_NUMBER, (first + count,))
    return Member(first)


def _write_entries(c: sqlite3.Connection, accounts: Collection[DirectoryEntry]) -> None:
    c.executemany(_PUT_USER, [(account.user, account.member, pack(account), account.deleted) for account in accounts])
    c.executemany(_PUT_MEMBER, [(account.member, account.user) for account in accounts])


def id_range_of(c: sqlite3.Connection, user: UserId) -> IdRange | None:
    if (parts := split_id(user)) is None:
        return None
    [range_] = _ranges_of_ids(c, [parts])
    return range_ if range_ and range_.member_of(parts[1]) is not None else None


def _ranges_of_ids(c: sqlite3.Connection, id_parts: Sequence[tuple[str, int]]) -> Sequence[IdRange | None]:
    rows = [c.execute(_SELECT_RANGE_OF_ID, parts).fetchone() for parts in id_parts]
    return [row and _range(row) for row in rows]


def _id_ranges_of_members(c: sqlite3.Connection, members: Sequence[Member]) -> Sequence[IdRange | None]:
    rows = [c.execute(_SELECT_ID_RANGE_OF_MEMBER, (member,)).fetchone() for member in members]
    return [row and _range(row) for row in rows]


def _range(row: tuple[str, int, int, int]) -> IdRange:
    prefix, first, count, member = row
    return IdRange(prefix=prefix, first=first, count=count, first_member=Member(member))


# Account flags in core.db: one row per member and reported flag.

FLAGS_PER_TRANSACTION = 4_096

_PUT_FLAG = load_statement("put_account_flag")
_SELECT_FLAG = "SELECT is_on, sequence FROM account_flags WHERE flag = ? AND shard = ? AND member = ?"
_SELECT_FLAGS_OF_SHARD = "SELECT member, is_on, sequence FROM account_flags WHERE flag = ? AND shard = ?"


class SqliteAccountFlags:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, rows: Iterable[FlagRow]) -> None:
        for batch in batches(map(_flag_values, rows), FLAGS_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(_PUT_FLAG, batch)

    def read_current(self, keys: Collection[FlagKey]) -> Mapping[FlagKey, FlagRow]:
        flags = dict[FlagKey, FlagRow]()
        with self._db.read() as c:
            for flag, member in keys:
                for is_on, sequence in c.execute(_SELECT_FLAG, (str(flag), shard_of(member), member)):
                    flags[flag, member] = FlagRow(flag=flag, member=member, is_set=bool(is_on), sequence=sequence)
        return flags

    def members(self, flag: Flag, shard: int) -> Bits:
        with self._db.read() as c:
            rows = c.execute(_SELECT_FLAGS_OF_SHARD, (str(flag), shard)).fetchall()
        return members_with_flag(
            FlagRow(flag=flag, member=Member(member), is_set=bool(on), sequence=sequence)
            for member, on, sequence in rows
        )


def _flag_values(row: FlagRow) -> tuple[object, ...]:
    return str(row.flag), shard_of(row.member), row.member, row.is_set, row.sequence
