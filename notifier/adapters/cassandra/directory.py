"""The directory: single accounts in buckets, and ranges of numeric ids that need one row."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from notifier.adapters.cassandra.numbers import Numbers
from notifier.adapters.cassandra.session import PLAIN, SERIAL, Cluster
from notifier.adapters.cassandra.together import batches, together
from notifier.codec import pack, unpack
from notifier.domain.audience.bitmap import block_of, shard_of
from notifier.domain.audience.id_ranges import IdRange, bucket_of, in_ranges, named_in_ranges, numbered, require_own
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import Account

ACCOUNT = "SELECT user, member, account FROM users WHERE bucket = ? AND user = ?"
RANGE_OF_ID = """
    SELECT prefix, first_id, count, member FROM user_ranges
    WHERE book = 'ranges' AND prefix = ? AND first_id <= ? LIMIT 1
"""

NAMES = 64
"""Of a bucket in one question or one round of Paxos: 16 KB of the longest that an event may have."""

_ACCOUNTS = "SELECT user, member, account FROM users WHERE bucket = ? AND user IN ?"
_USERS = "SELECT member, user FROM members WHERE block = ? AND member IN ?"
_RANGE_OF_MEMBER = """
    SELECT prefix, first_id, count, member FROM member_ranges WHERE book = 'ranges' AND member <= ? LIMIT 1
"""
_DELETED = "SELECT shard, member FROM deleted_members WHERE shard = ? AND member = ?"
_NUMBER = "INSERT INTO users (bucket, user, member) VALUES (?, ?, ?) IF NOT EXISTS"
_PUT_USER = "INSERT INTO users (bucket, user, member, account) VALUES (?, ?, ?, ?)"
_PUT_MEMBER = "INSERT INTO members (block, member, user) VALUES (?, ?, ?)"
_PUT_DELETED = "INSERT INTO deleted_members (shard, member) VALUES (?, ?)"
_DROP_DELETED = "DELETE FROM deleted_members WHERE shard = ? AND member = ?"
_PUT_MEMBER_RANGE = "INSERT INTO member_ranges (book, member, count, prefix, first_id) VALUES ('ranges', ?, ?, ?, ?)"
_PUT_USER_RANGE = "INSERT INTO user_ranges (book, prefix, first_id, count, member) VALUES ('ranges', ?, ?, ?, ?)"

_BUCKET = _BLOCK = itemgetter(0)


class CassandraDirectory:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = Numbers(cluster)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, Account]:
        """Single accounts come before ranges. The empty name is nobody's."""
        found = self._accounts(users)
        members = in_ranges((user for user in users if user not in found), self._ranges)
        return found | {user: Account(user=user, member=member) for user, member in members.items()}

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        blocks: defaultdict[int, list[Member]] = defaultdict(list)
        for member in members:
            blocks[block_of(member)].append(member)
        rows = [row for rows in self._cluster.ask_each(_USERS, blocks.items()) for row in rows]
        found = {Member(row.member): UserId(row.user) for row in rows}
        return found | named_in_ranges((member for member in members if member not in found), self._ranges_of)

    def number(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        found = {user: account.member for user, account in self.accounts(users).items()}
        while new := [user for user in dict.fromkeys(users) if user and user not in found]:
            given = dict(zip(new, map(Member, self._numbers.take(len(new))), strict=True))
            # The way back first: nobody is found by a name that can't be told of the member. Who is cut off in between,
            # or was a moment too late, leaves numbers that name somebody and are in no set.
            self._put_members(given)
            found |= self._given(given)
        return found

    def lease(self, count: int) -> Member:
        return self._numbers.lease(count)

    def end(self) -> Member:
        return self._numbers.end()

    def enrol(self, accounts: Collection[Account]) -> None:
        # Whoever is cut off enrols again, and writes the same. The account comes when everything is known of it; who is
        # deleted is silent before it, and who is back is heard after it: no phone rings in between.
        latest = {account.user: account for account in accounts}.values()
        places = {account: (shard_of(account.member), account.member) for account in latest}
        wanted = {account.user: account.member for account in latest}
        known = {user: account.member for user, account in self.accounts(wanted).items()}
        require_own(wanted, known, self.users(wanted.values()))
        self._numbers.require_given(wanted.values())
        self._numbers.pass_over(max((account.member + 1 for account in latest), default=0))
        self._put_members({one.user: one.member for one in latest})
        self._cluster.ask_each(_PUT_DELETED, [place for one, place in places.items() if one.deleted])
        self._cluster.ask_each(_PUT_USER, [(bucket_of(one.user), one.user, one.member, pack(one)) for one in latest])
        self._drop_deleted([place for one, place in places.items() if not one.deleted])

    def enrol_range(self, ids: IdRange) -> None:
        # The way back first, as above. Cut off, it is enrolled again.
        near = [(RANGE_OF_ID, (ids.prefix, ids.last)), (_RANGE_OF_MEMBER, (ids.end - 1,))]
        for others in (rows for ask, place in near if (rows := self._cluster.ask(ask, place))):
            ids.require_apart(id_range(others))
        self._numbers.pass_over(ids.end)
        self._cluster.ask(_PUT_MEMBER_RANGE, (ids.member, ids.count, ids.prefix, ids.first))
        self._cluster.ask(_PUT_USER_RANGE, (ids.prefix, ids.first, ids.count, ids.member))

    def range_of(self, user: UserId) -> IdRange | None:
        if (parts := numbered(user)) is None:
            return None
        [found] = self._ranges([parts])
        return found if found and found.member_of(parts[1]) is not None else None

    def _ranges(self, places: Sequence[tuple[str, int]]) -> Sequence[IdRange | None]:
        return [id_range(rows) if rows else None for rows in self._cluster.ask_each(RANGE_OF_ID, places)]

    def _ranges_of(self, members: Sequence[Member]) -> Sequence[IdRange | None]:
        answers = self._cluster.ask_each(_RANGE_OF_MEMBER, [(member,) for member in members])
        return [id_range(rows) if rows else None for rows in answers]

    def _accounts(self, users: Iterable[UserId], profile: object = PLAIN) -> dict[UserId, Account]:
        asked = [(bucket, list(names)) for bucket, names in _by_bucket(users)]
        found = [stored(row) for rows in self._cluster.ask_each(_ACCOUNTS, asked, profile=profile) for row in rows]
        return {account.user: account for account in found}

    def _given(self, wanted: Mapping[UserId, Member]) -> dict[UserId, Member]:
        """Those who have a number by now: this one, or one that another gave them a moment before."""
        groups = list(_by_bucket(wanted))
        decided = self._cluster.decide_together(
            _NUMBER, [[(b, name, wanted[name]) for name in some] for b, some in groups]
        )
        if None in decided:
            raise StoreUnavailable("Whether some were given a number isn't known yet.")
        mine = {name: wanted[name] for (_, some), won in zip(groups, decided, strict=True) if won for name in some}
        others = self._accounts([user for user in wanted if user not in mine], SERIAL)
        return mine | {user: account.member for user, account in others.items()}

    def _put_members(self, members: Mapping[UserId, Member]) -> None:
        rows = sorted((block_of(member), member, user) for user, member in members.items())
        blocks = [some for _, block in groupby(rows, _BLOCK) for some in batches(block, NAMES)]
        self._cluster.ask_all(together(_PUT_MEMBER, some) for some in blocks)

    def _drop_deleted(self, places: Collection[tuple[int, Member]]) -> None:
        """Of those who stand there: a tombstone for each newcomer would slow every look at the shard for ten days."""
        back = [row for rows in self._cluster.ask_each(_DELETED, places) for row in rows]
        self._cluster.ask_each(_DROP_DELETED, [(row.shard, row.member) for row in back])


def stored(row: Any) -> Account:
    """Of whom no more is known than the number, everything else is as it is for most."""
    if row.account is None:
        return Account(user=UserId(row.user), member=Member(row.member))
    return unpack(Account, row.account)


def id_range(rows: list[Any]) -> IdRange:
    [row] = rows
    return IdRange(prefix=row.prefix, first=row.first_id, count=row.count, member=Member(row.member))


def _by_bucket(users: Iterable[UserId]) -> Iterator[tuple[int, Sequence[UserId]]]:
    places = sorted((bucket_of(user), user) for user in set(users) if user)
    for bucket, some in groupby(places, _BUCKET):
        yield from ((bucket, names) for names in batches((name for _, name in some), NAMES))
