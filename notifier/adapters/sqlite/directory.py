"""The directory in core.db: single accounts, and ranges of numeric ids that need one entry."""

import json
import re
import sqlite3
from collections.abc import Collection, Mapping

from notifier.adapters.sqlite.connection import Database
from notifier.codec import pack, unpack
from notifier.domain.subject import Member, UserId
from notifier.ports.directory import Account, IdRange

_NUMBERED = re.compile(r"(?s:(.*?))(0|[1-9][0-9]{0,17})")
"""A prefix and a number as `str` writes it: `u7`, never `u07`."""

_ACCOUNTS = "SELECT user, account FROM users WHERE user IN (SELECT value FROM json_each(?))"
_USERS = "SELECT member, user FROM members WHERE member IN (SELECT value FROM json_each(?))"
_PUT_USER = "INSERT OR REPLACE INTO users (user, member, account, deleted) VALUES (?, ?, ?, ?)"
_PUT_MEMBER = "INSERT OR REPLACE INTO members (member, user) VALUES (?, ?)"
_PUT_RANGE = "INSERT OR REPLACE INTO user_ranges (prefix, first_id, count, member) VALUES (?, ?, ?, ?)"
_RANGE_OF_ID = (
    "SELECT first_id, count, member FROM user_ranges WHERE prefix = ? AND first_id <= ? ORDER BY 1 DESC LIMIT 1"
)
_RANGE_OF_MEMBER = "SELECT prefix, first_id, count, member FROM user_ranges WHERE member <= ? ORDER BY 4 DESC LIMIT 1"


class SqliteDirectory:
    def __init__(self, db: Database) -> None:
        self._db = db

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        with self._db.read() as c:
            return accounts(c, users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        with self._db.read() as c:
            found = {Member(member): UserId(user) for member, user in c.execute(_USERS, (json.dumps(list(members)),))}
            for member in members:
                if member not in found and (user := _from_range(c, member)) is not None:
                    found[member] = user
        return found

    def enrol(self, accounts: Collection[Account]) -> None:
        with self._db.write() as c:
            c.executemany(_PUT_USER, [(one.user, one.member, pack(one), one.deleted) for one in accounts])
            c.executemany(_PUT_MEMBER, [(account.member, account.user) for account in accounts])

    def enrol_range(self, ids: IdRange) -> None:
        with self._db.write() as c:
            c.execute(_PUT_RANGE, (ids.prefix, ids.first, ids.count, ids.member))


def accounts(c: sqlite3.Connection, users: Collection[UserId]) -> dict[UserId, Account]:
    """Within the caller's transaction; single accounts come before ranges."""
    rows = c.execute(_ACCOUNTS, (json.dumps(list(users)),))
    found = {UserId(user): unpack(Account, blob) for user, blob in rows}
    for user in users:
        if user not in found and (member := _in_range(c, user)) is not None:
            found[user] = Account(user=user, member=member)
    return found


def _in_range(c: sqlite3.Connection, user: UserId) -> Member | None:
    if (parts := _NUMBERED.fullmatch(user)) is None:
        return None
    number = int(parts[2])
    row = c.execute(_RANGE_OF_ID, (parts[1], number)).fetchone()
    if row is None or number >= row[0] + row[1]:
        return None
    return Member(row[2] + number - row[0])


def _from_range(c: sqlite3.Connection, member: Member) -> UserId | None:
    row = c.execute(_RANGE_OF_MEMBER, (member,)).fetchone()
    if row is None or member >= row[3] + row[2]:
        return None
    return UserId(f"{row[0]}{row[1] + member - row[3]}")
