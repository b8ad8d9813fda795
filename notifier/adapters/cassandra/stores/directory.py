"""Stores the user directory, member numbers, fencing epochs and account flags.

Single accounts are in buckets. A range of numeric ids needs only one row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from threading import Lock
from typing import Any

from notifier.adapters.cassandra.driver.batching import BUFFERED_ROWS, Row, batched_rows, batches, put_in_subject_table
from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.codec import pack, unpack
from notifier.domain.audience.account_flags import Flag, FlagKey, FlagRow, members_with_flag
from notifier.domain.audience.bitmap import Bits, block_of, shard_of
from notifier.domain.audience.id_ranges import (
    IdRange,
    bucket_of,
    members_in_ranges,
    require_unique_numbers,
    split_id,
    users_in_ranges,
)
from notifier.domain.errors import NumberTaken, StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import LEASE_SIZE, DirectoryEntry

# Member numbers: leased in ranges by compare-and-set, and assigned by this process from its own lease.

_FREE = "SELECT next_number FROM counters WHERE name = ?"
_FIRST = "INSERT INTO counters (name, next_number) VALUES (?, ?) IF NOT EXISTS"
_MOVE = "UPDATE counters SET next_number = ? WHERE name = ? IF next_number = ?"


class RisingCounter:
    """Counter that only rises.

    A swap whose answer is lost raises StoreUnavailable. If it took effect, its numbers are never used.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def lease(self, count: int) -> int:
        """Lease `count` numbers, at least one, and return the first of them."""
        if count < 1:
            raise ValueError(f"can't lease {count} numbers")
        while not self._try_move(free := self.free(), free + count):
            pass  # another process was first
        return free

    def raise_to(self, end: int) -> None:
        """Raise the counter to `end`, because all numbers below it are taken."""
        while (free := self.free()) < end and not self._try_move(free, end):
            pass

    def free(self) -> int:
        """Return the next free number. It is 0 only before the first lease."""
        rows = self._cluster.query(_FREE, (self._name,), profile=SERIAL)
        return rows[0].next_number if rows else 0

    def _try_move(self, free: int, to: int) -> bool:
        if free:
            return self._cluster.compare_and_set(_MOVE, (to, self._name, free))
        return self._cluster.compare_and_set(_FIRST, (self._name, to))


class MemberNumbers:
    """Assigns member numbers."""

    def __init__(self, cluster: Cluster) -> None:
        self._counter = RisingCounter(cluster, "members")
        self._leased = range(0)
        self._lock = Lock()

    def take(self, count: int) -> Sequence[int]:
        """Return `count` numbers, first those that are left of the last lease."""
        with self._lock:
            leftover = self._leased[:count]
            self._leased = self._leased[count:]
            if not (wanted := count - len(leftover)):
                return leftover
            leased = max(wanted, LEASE_SIZE)
            first = self._counter.lease(leased)
            self._leased = range(first + wanted, first + leased)
            return [*leftover, *range(first, first + wanted)]

    def require_unreserved(self, members: Collection[Member]) -> None:
        """Raise NumberTaken for numbers in this process's lease, which it may assign to other users."""
        with self._lock:
            if reserved := [member for member in members if member in self._leased]:
                raise NumberTaken(f"Number {reserved[0]} is leased for another user.")

    def lease(self, count: int) -> Member:
        return Member(self._counter.lease(count))

    def raise_to(self, end: int) -> None:
        self._counter.raise_to(end)

    def end(self) -> Member:
        return Member(self._counter.free())


class CassandraEpochs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, name: str) -> int:
        return RisingCounter(self._cluster, f"epoch of {name}").lease(1)


ACCOUNT = "SELECT user, member, account FROM users WHERE bucket = ? AND user = ?"
RANGE_OF_ID = """
    SELECT prefix, first_id, count, member FROM user_ranges
    WHERE list_name = 'ranges' AND prefix = ? AND first_id <= ? LIMIT 1
"""

NAMES = 64
"""Names of a bucket per query or Paxos round: 16 KB with the longest names that an event may have."""

_ACCOUNTS = "SELECT user, member, account FROM users WHERE bucket = ? AND user IN ?"
_USERS = "SELECT member, user FROM members WHERE block = ? AND member IN ?"
_RANGE_OF_MEMBER = """
    SELECT prefix, first_id, count, member FROM member_ranges WHERE list_name = 'ranges' AND member <= ? LIMIT 1
"""
_DELETED = "SELECT shard, member FROM deleted_members WHERE shard = ? AND member = ?"
_NUMBER = "INSERT INTO users (bucket, user, member) VALUES (?, ?, ?) IF NOT EXISTS"
_PUT_USER = "INSERT INTO users (bucket, user, member, account) VALUES (?, ?, ?, ?)"
_PUT_MEMBER = "INSERT INTO members (block, member, user) VALUES (?, ?, ?)"
_PUT_DELETED = "INSERT INTO deleted_members (shard, member) VALUES (?, ?)"
_DROP_DELETED = "DELETE FROM deleted_members WHERE shard = ? AND member = ?"
_PUT_MEMBER_RANGE = (
    "INSERT INTO member_ranges (list_name, member, count, prefix, first_id) VALUES ('ranges', ?, ?, ?, ?)"
)
_PUT_USER_RANGE = "INSERT INTO user_ranges (list_name, prefix, first_id, count, member) VALUES ('ranges', ?, ?, ?, ?)"

_BUCKET = _BLOCK = itemgetter(0)


class CassandraDirectory:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = MemberNumbers(cluster)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        """Return the accounts of the users. Single accounts override ranges. No account has the empty name."""
        accounts = self._accounts(users)
        members = members_in_ranges((user for user in users if user not in accounts), self._ranges)
        return accounts | {user: DirectoryEntry(user=user, member=member) for user, member in members.items()}

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        blocks: defaultdict[int, list[Member]] = defaultdict(list)
        for member in members:
            blocks[block_of(member)].append(member)
        rows = [row for rows in self._cluster.query_each(_USERS, blocks.items()) for row in rows]
        users = {Member(row.member): UserId(row.user) for row in rows}
        return users | users_in_ranges((member for member in members if member not in users), self._ranges_of)

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        members = {user: account.member for user, account in self.accounts(users).items()}
        while new := [user for user in dict.fromkeys(users) if user and user not in members]:
            assigned = dict(zip(new, map(Member, self._numbers.take(len(new))), strict=True))
            # Write the member's name first: a user is never found by a name that the member can't be resolved to. A
            # crash in between, or a lost race, leaves numbers that resolve to a user and are in no set.
            self._put_members(assigned)
            members |= self._assign(assigned)
        return members

    def lease(self, count: int) -> Member:
        return self._numbers.lease(count)

    def end(self) -> Member:
        return self._numbers.end()

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        # After an interruption the caller enrolls again and writes the same rows. The account row is written once all
        # other facts are stored. A deletion takes effect before it and a restoration after it: no alert is sent in
        # between.
        latest = {account.user: account for account in accounts}.values()
        places = {account: (shard_of(account.member), account.member) for account in latest}
        wanted = {account.user: account.member for account in latest}
        known = {user: account.member for user, account in self.accounts(wanted).items()}
        require_unique_numbers(wanted, known, self.users(wanted.values()))
        self._numbers.require_unreserved(wanted.values())
        self._numbers.raise_to(max((account.member + 1 for account in latest), default=0))
        self._put_members({entry.user: entry.member for entry in latest})
        self._cluster.query_each(_PUT_DELETED, [place for entry, place in places.items() if entry.deleted])
        self._cluster.query_each(
            _PUT_USER, [(bucket_of(entry.user), entry.user, entry.member, pack(entry)) for entry in latest]
        )
        self._drop_deleted([place for entry, place in places.items() if not entry.deleted])

    def enrol_range(self, ids: IdRange) -> None:
        # Write the member's range first, as above. After an interruption the caller enrolls it again.
        near = [(RANGE_OF_ID, (ids.prefix, ids.last)), (_RANGE_OF_MEMBER, (ids.end - 1,))]
        for neighbor in (rows for ask, place in near if (rows := self._cluster.query(ask, place))):
            ids.require_disjoint(id_range(neighbor))
        self._numbers.raise_to(ids.end)
        self._cluster.query(_PUT_MEMBER_RANGE, (ids.member, ids.count, ids.prefix, ids.first))
        self._cluster.query(_PUT_USER_RANGE, (ids.prefix, ids.first, ids.count, ids.member))

    def range_of(self, user: UserId) -> IdRange | None:
        if (parts := split_id(user)) is None:
            return None
        [range_] = self._ranges([parts])
        return range_ if range_ and range_.member_of(parts[1]) is not None else None

    def _ranges(self, places: Sequence[tuple[str, int]]) -> Sequence[IdRange | None]:
        return [id_range(rows) if rows else None for rows in self._cluster.query_each(RANGE_OF_ID, places)]

    def _ranges_of(self, members: Sequence[Member]) -> Sequence[IdRange | None]:
        answers = self._cluster.query_each(_RANGE_OF_MEMBER, [(member,) for member in members])
        return [id_range(rows) if rows else None for rows in answers]

    def _accounts(self, users: Iterable[UserId], profile: object = PLAIN) -> dict[UserId, DirectoryEntry]:
        queries = [(bucket, list(names)) for bucket, names in _by_bucket(users)]
        accounts = [
            entry_of(row) for rows in self._cluster.query_each(_ACCOUNTS, queries, profile=profile) for row in rows
        ]
        return {account.user: account for account in accounts}

    def _assign(self, wanted: Mapping[UserId, Member]) -> dict[UserId, Member]:
        """Assign the numbers. Return each user's number, which another process may have assigned a moment before."""
        groups = list(_by_bucket(wanted))
        decided = self._cluster.compare_and_set_batches(
            _NUMBER, [[(b, name, wanted[name]) for name in names] for b, names in groups]
        )
        if None in decided:
            raise StoreUnavailable("Unknown whether some users were given a number.")
        assigned = {
            name: wanted[name] for (_, names), won in zip(groups, decided, strict=True) if won for name in names
        }
        existing = self._accounts([user for user in wanted if user not in assigned], SERIAL)
        return assigned | {user: account.member for user, account in existing.items()}

    def _put_members(self, members: Mapping[UserId, Member]) -> None:
        rows = sorted((block_of(member), member, user) for user, member in members.items())
        blocks = [batch for _, block in groupby(rows, _BLOCK) for batch in batches(block, NAMES)]
        self._cluster.query_all(batched_rows(_PUT_MEMBER, batch) for batch in blocks)

    def _drop_deleted(self, places: Collection[tuple[int, Member]]) -> None:
        """Remove listed members from the deleted members.

        A blind delete would leave a tombstone for each new member, which slows each read of the shard for ten days.
        """
        listed = [row for rows in self._cluster.query_each(_DELETED, places) for row in rows]
        self._cluster.query_each(_DROP_DELETED, [(row.shard, row.member) for row in listed])


def entry_of(row: Any) -> DirectoryEntry:
    """Return the account of a row. A row without account data has the default values that apply to most accounts."""
    if row.account is None:
        return DirectoryEntry(user=UserId(row.user), member=Member(row.member))
    return unpack(DirectoryEntry, row.account)


def id_range(rows: list[Any]) -> IdRange:
    [row] = rows
    return IdRange(prefix=row.prefix, first=row.first_id, count=row.count, member=Member(row.member))


def _by_bucket(users: Iterable[UserId]) -> Iterator[tuple[int, Sequence[UserId]]]:
    places = sorted((bucket_of(user), user) for user in set(users) if user)
    for bucket, group in groupby(places, _BUCKET):
        yield from ((bucket, names) for names in batches((name for _, name in group), NAMES))


# Account flags: a row for each flag that was ever reported. The latest update wins.

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins,
# which is the one that sets the flag.
_WRITE = "INSERT INTO account_flags (flag, shard, member, is_on) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_READ_FLAGS = "SELECT member, is_on, WRITETIME(is_on) AS sequence FROM account_flags WHERE flag = ? AND shard = ?"
CURRENT_FLAGS = f"{_READ_FLAGS} AND member IN ?"


class CassandraAccountFlags:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, rows: Iterable[FlagRow]) -> None:
        for batch in batches(map(_row, rows), BUFFERED_ROWS):
            put_in_subject_table(self._cluster, _WRITE, batch)

    def read_current(self, keys: Collection[FlagKey]) -> Mapping[FlagKey, FlagRow]:
        by_shard: defaultdict[tuple[Flag, int], list[Member]] = defaultdict(list)
        for flag, member in keys:
            by_shard[flag, shard_of(member)].append(member)
        questions = [(str(flag), shard, sorted(members)) for (flag, shard), members in by_shard.items()]
        answers = zip(by_shard, self._cluster.query_each(CURRENT_FLAGS, questions), strict=True)
        flags = [_flagged(flag, row) for (flag, _), rows in answers for row in rows]
        return {flagged.key: flagged for flagged in flags}

    def members(self, flag: Flag, shard: int) -> Bits:
        return members_with_flag(_flagged(flag, row) for row in self._cluster.query(_READ_FLAGS, (str(flag), shard)))


def _row(flagged: FlagRow) -> Row:
    return str(flagged.flag), shard_of(flagged.member), flagged.member, flagged.is_set, flagged.sequence


def _flagged(flag: Flag, row: Any) -> FlagRow:
    return FlagRow(flag=flag, member=Member(row.member), is_set=row.is_on, sequence=row.sequence)
