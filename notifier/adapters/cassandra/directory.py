"""The directory: single accounts, and ranges of numeric ids that need one row."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.codec import pack, unpack
from notifier.domain.bits import block_of, shard_of
from notifier.domain.subject import Member, UserId
from notifier.ports.directory import Account, IdRange

ACCOUNT = "SELECT account FROM users WHERE user = ?"
RANGE_OF_ID = """
    SELECT first_id, count, member FROM user_ranges WHERE book = 'ranges' AND prefix = ? AND first_id <= ? LIMIT 1
"""

_NUMBERED = re.compile(r"(?s:(.*?))(0|[1-9][0-9]{0,17})")
"""A prefix and a number as `str` writes it: `u7`, never `u07`."""

_USERS = "SELECT member, user FROM members WHERE block = ? AND member IN ?"
_RANGE_OF_MEMBER = """
    SELECT member, count, prefix, first_id FROM member_ranges WHERE book = 'ranges' AND member <= ? LIMIT 1
"""
_DELETED = "SELECT shard, member FROM deleted_members WHERE shard = ? AND member = ?"
_PUT_USER = "INSERT INTO users (user, member, account) VALUES (?, ?, ?)"
_PUT_MEMBER = "INSERT INTO members (block, member, user) VALUES (?, ?, ?)"
_PUT_DELETED = "INSERT INTO deleted_members (shard, member) VALUES (?, ?)"
_DROP_DELETED = "DELETE FROM deleted_members WHERE shard = ? AND member = ?"
_PUT_MEMBER_RANGE = "INSERT INTO member_ranges (book, member, count, prefix, first_id) VALUES ('ranges', ?, ?, ?, ?)"
_PUT_USER_RANGE = "INSERT INTO user_ranges (book, prefix, first_id, count, member) VALUES ('ranges', ?, ?, ?, ?)"


class CassandraDirectory:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """Single accounts come before ranges. The empty name is nobody's, and can't be asked for."""
        names = [user for user in dict.fromkeys(users) if user]
        rows = self._cluster.ask_each(ACCOUNT, [(user,) for user in names])
        found = {user: stored(row) for user, row in zip(names, rows, strict=True) if row}
        ids = {user: parts for user in names if user not in found and (parts := numbered(user))}
        for (user, (_, number)), row in zip(
            ids.items(), self._cluster.ask_each(RANGE_OF_ID, ids.values()), strict=True
        ):
            if (member := in_range(number, row)) is not None:
                found[user] = Account(user=user, member=member)
        return found

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        blocks: defaultdict[int, list[Member]] = defaultdict(list)
        for member in members:
            blocks[block_of(member)].append(member)
        rows = [row for rows in self._cluster.ask_each(_USERS, blocks.items()) for row in rows]
        found = {Member(row.member): UserId(row.user) for row in rows}
        others = [member for member in members if member not in found]
        ranges = self._cluster.ask_each(_RANGE_OF_MEMBER, [(member,) for member in others])
        named = {member: _name(member, row) for member, row in zip(others, ranges, strict=True)}
        return found | {member: user for member, user in named.items() if user is not None}

    def enrol(self, accounts: Collection[Account]) -> None:
        # Whoever is cut off enrols again, and writes the same. The account comes when everything is known of it; who is
        # deleted is silent before it, and who is back is heard after it: no phone rings in between.
        latest = {account.user: account for account in accounts}.values()
        places = {account: (shard_of(account.member), account.member) for account in latest}
        self._cluster.ask_each(_PUT_MEMBER, [(block_of(one.member), one.member, one.user) for one in latest])
        self._cluster.ask_each(_PUT_DELETED, [place for one, place in places.items() if one.deleted])
        self._cluster.ask_each(_PUT_USER, [(one.user, one.member, pack(one)) for one in latest])
        self._drop_deleted([place for one, place in places.items() if not one.deleted])

    def enrol_range(self, ids: IdRange) -> None:
        # The way back first: nobody is found by a name that can't be told of the member. Cut off, it is enrolled again.
        self._cluster.ask(_PUT_MEMBER_RANGE, (ids.member, ids.count, ids.prefix, ids.first))
        self._cluster.ask(_PUT_USER_RANGE, (ids.prefix, ids.first, ids.count, ids.member))

    def _drop_deleted(self, places: Collection[tuple[int, Member]]) -> None:
        """Of those who stand there: a tombstone for each newcomer would slow every look at the shard for ten days."""
        back = [row for rows in self._cluster.ask_each(_DELETED, places) for row in rows]
        self._cluster.ask_each(_DROP_DELETED, [(row.shard, row.member) for row in back])


def stored(rows: list[Any]) -> Account:
    return unpack(Account, rows[0].account)


def numbered(user: UserId) -> tuple[str, int] | None:
    """Its prefix and its number, with which it may be in a range."""
    parts = _NUMBERED.fullmatch(user)
    return None if parts is None else (parts[1], int(parts[2]))


def in_range(number: int, rows: list[Any]) -> Member | None:
    """From the last range that begins at or before the number."""
    if not rows or number >= rows[0].first_id + rows[0].count:
        return None
    return Member(rows[0].member + number - rows[0].first_id)


def _name(member: Member, rows: list[Any]) -> UserId | None:
    if not rows or member >= rows[0].member + rows[0].count:
        return None
    return UserId(f"{rows[0].prefix}{rows[0].first_id + member - rows[0].member}")
