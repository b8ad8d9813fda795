"""Stores subject preferences, account preferences and user blocks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.batching import Row, batched_rows, batches, put_in_both_tables
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.codec.account_preferences import EncodedPreferences, decode_preferences, encode_change
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_BLOCKS, WHOLE_BLOCK_SLOT, Bits, block_of, shard_of
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
    account_preference_sets,
)
from notifier.domain.users.subject_preferences import (
    MemberBlockMutes,
    PreferenceChange,
    SubjectPreference,
    Volume,
    current_preferences,
    preference_sets,
)
from notifier.domain.users.user_blocks import UserBlock, UserBlockEnds, UserBlockSide, subject_owners, user_block_ends
from notifier.ports.viewers_preferences_user_blocks import SubjectAndMember

# Account preferences: a row for each field of a member. The rows of a shard share a partition.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order.
_WRITE_FIELD = "INSERT INTO account_preferences (shard, member, field, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
SELECT_ACCOUNT_PREFERENCES = (
    "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ? AND member = ?"
)
_SELECT_ACCOUNT_PREFERENCES_OF_MEMBERS = (
    "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ? AND member IN ?"
)
SELECT_ACCOUNT_PREFERENCES_OF_SHARD = (
    "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ?"
)

_MICROSECONDS_PER_MS = 1_000


class CassandraAccountPreferences:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, changes: Collection[AccountPreferencesChange]) -> None:
        self._cluster.query_all(
            [statement for change in changes if (statement := account_preferences_statement(change))]
        )

    def read_current(self, members: Collection[Member]) -> Mapping[Member, AccountPreferences]:
        by_shard = defaultdict[int, list[Member]](list)
        for member in members:
            by_shard[shard_of(member)].append(member)
        results = self._cluster.query_each(_SELECT_ACCOUNT_PREFERENCES_OF_MEMBERS, list(by_shard.items()))
        return account_preferences_of(row for rows in results for row in rows)

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return account_preference_sets(
            account_preferences_of(self._cluster.query(SELECT_ACCOUNT_PREFERENCES_OF_SHARD, (shard,)))
        )


def account_preferences_statement(change: AccountPreferencesChange) -> tuple[str, Row] | None:
    """Return a statement that writes the change, or None if the change is empty.

    The write is atomic, because all rows are in one partition.
    """
    key, at = (shard_of(change.member), change.member), to_ms(change.at) * _MICROSECONDS_PER_MS
    rows = [(*key, field, value, at) for field, value in encode_change(change).items()]
    return batched_rows(_WRITE_FIELD, rows) if rows else None


def account_preferences_of(rows: Iterable[Any]) -> Mapping[Member, AccountPreferences]:
    preferences: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for row in rows:
        preferences[Member(row.member)][row.field] = row.value, from_ms(row.at // _MICROSECONDS_PER_MS)
    return {member: decode_preferences(fields) for member, fields in preferences.items()}


def account_fields_of(rows: Iterable[Any]) -> Iterator[tuple[Member, EncodedPreferences]]:
    """Yield each member of a shard with the member's account preferences.

    `rows` are those of SELECT_ACCOUNT_PREFERENCES_OF_SHARD, in which the rows of a member are adjacent.
    """
    for member, group in groupby(rows, attrgetter("member")):
        yield Member(member), tuple((row.field, row.value) for row in group)


def member_account_preferences(member: Member, rows: Iterable[Any]) -> AccountPreferences:
    return account_preferences_of(rows).get(member, DEFAULT_ACCOUNT_PREFERENCES)


# Subject preferences: each is stored by member block and by subject.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order. A
# change writes only the fields that it sets.
_COLUMN_SETS: tuple[tuple[str, ...], ...] = (("volume",), ("visible_from",), ("volume", "visible_from"))
_WRITE_PREFERENCE = {
    columns: f"INSERT INTO subject_preferences (block, slot, subject, {', '.join(columns)})"
    f" VALUES (?, ?, ?, {', '.join('?' * len(columns))}) USING TIMESTAMP ?"
    for columns in _COLUMN_SETS
}
_WRITE_PREFERENCE_BY_SUBJECT = {
    columns: f"INSERT INTO preferences_by_subject (block, slot, subject, {', '.join(columns)}, shard)"
    f" VALUES (?, ?, ?, {', '.join('?' * len(columns))}, ?) USING TIMESTAMP ?"
    for columns in _COLUMN_SETS
}
_PREFERENCE_COLUMNS = "volume, visible_from, WRITETIME(volume) AS volume_at, WRITETIME(visible_from) AS visible_from_at"
SELECT_PREFERENCES = (
    f"SELECT slot, subject, members, {_PREFERENCE_COLUMNS} FROM subject_preferences WHERE block = ? AND slot IN ?"
)
_PUT_MUTE = "INSERT INTO subject_preferences (block, slot, subject, members) VALUES (?, ?, ?, ?)"
_PUT_MUTE_BY_SUBJECT = (
    "INSERT INTO preferences_by_subject (subject, shard, block, slot, members) VALUES (?, ?, ?, ?, ?)"
)
_SELECT_PREFERENCES_OF_PAIRS = (
    f"SELECT slot, {_PREFERENCE_COLUMNS} FROM subject_preferences WHERE block = ? AND slot IN ? AND subject = ?"
)
_SELECT_PREFERENCES_OF_SHARD = (
    f"SELECT block, slot, members, {_PREFERENCE_COLUMNS} FROM preferences_by_subject WHERE subject = ? AND shard = ?"
)

BoundStatement = tuple[str, Row]


class CassandraSubjectPreferences:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, changes: Collection[PreferenceChange]) -> None:
        # Write the subject table first: once the inbox hides a burst, no alert of the burst may be sent. After an
        # interruption the caller writes both tables again.
        for statements in zip(*(preference_statements(change) for change in changes), strict=True):
            self._cluster.query_all(statements)

    def write_mutes(self, mutes: Iterable[MemberBlockMutes]) -> None:
        put_in_both_tables(self._cluster, (_PUT_MUTE_BY_SUBJECT, _PUT_MUTE), map(_mute_rows, mutes))

    def read_own(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, SubjectPreference]:
        by_block: defaultdict[tuple[int, Subject], list[int]] = defaultdict(list)
        for subject, member in pairs:
            by_block[member // BLOCK_MEMBERS, subject].append(member % BLOCK_MEMBERS)
        queries = [(block, sorted(slots), str(subject)) for (block, subject), slots in by_block.items()]
        results = zip(by_block, self._cluster.query_each(_SELECT_PREFERENCES_OF_PAIRS, queries), strict=True)
        preferences = [_preference(block, subject, row) for (block, subject), rows in results for row in rows]
        return {(preference.subject, preference.member): preference for preference in preferences}

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self._cluster.query(_SELECT_PREFERENCES_OF_SHARD, (str(subject), shard))
        mutes = [
            MemberBlockMutes(subject=subject, block=r.block, members=r.members)
            for r in rows
            if r.slot == WHOLE_BLOCK_SLOT
        ]
        return preference_sets(
            [_preference(row.block, subject, row) for row in rows if row.slot < WHOLE_BLOCK_SLOT], mutes
        )


def preference_statements(change: PreferenceChange) -> tuple[BoundStatement, BoundStatement]:
    """Return the statement for the subject table and the one for the block table."""
    block, slot = divmod(change.member, BLOCK_MEMBERS)
    fields = {
        "volume": change.volume and str(change.volume),
        "visible_from": change.visible_from and to_ms(change.visible_from),
    }
    columns = tuple(name for name, value in fields.items() if value is not None)
    row = block, slot, str(change.subject), *(fields[name] for name in columns)
    at = to_ms(change.at) * _MICROSECONDS_PER_MS
    return (_WRITE_PREFERENCE_BY_SUBJECT[columns], (*row, shard_of(change.member), at)), (
        _WRITE_PREFERENCE[columns],
        (*row, at),
    )


def _mute_rows(mute: MemberBlockMutes) -> tuple[Row, Row]:
    subject, block, members = str(mute.subject), mute.block, mute.members
    return (subject, block // SHARD_BLOCKS, block, WHOLE_BLOCK_SLOT, members), (
        block,
        WHOLE_BLOCK_SLOT,
        subject,
        members,
    )


def subject_preferences_of(member: Member, rows: Iterable[Any]) -> Mapping[Subject, SubjectPreference]:
    """Return the member's preferences from the rows of SELECT_PREFERENCES."""
    block, own_preferences, mutes = member // BLOCK_MEMBERS, list[SubjectPreference](), list[MemberBlockMutes]()
    for row in rows:
        subject = Subject.parse(row.subject)
        if row.slot == WHOLE_BLOCK_SLOT:
            mutes.append(MemberBlockMutes(subject=subject, block=block, members=row.members))
        else:
            own_preferences.append(_preference(block, subject, row))
    return current_preferences(member, own_preferences, mutes)


def _preference(block: int, subject: Subject, row: Any) -> SubjectPreference:
    return SubjectPreference(
        subject=subject,
        member=Member(block * BLOCK_MEMBERS + row.slot),
        at=from_ms(max(row.volume_at or 0, row.visible_from_at or 0) // _MICROSECONDS_PER_MS),
        volume=Volume(row.volume or Volume.DEFAULT),
        visible_from=from_ms(row.visible_from or 0),
    )


class CassandraPreferences:
    """Preferences of users. Reads and writes use a quorum, so each read sees all acknowledged writes."""

    def __init__(self, async_queries: AsyncQueries) -> None:
        self._async_queries = async_queries

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        return subject_preferences_of(
            member, await self._async_queries(SELECT_PREFERENCES, (block, [slot, WHOLE_BLOCK_SLOT]))
        )

    async def write(self, change: PreferenceChange) -> None:
        # The subject table comes first, as in CassandraSubjectPreferences. After an interruption the graph indexer
        # writes the change again, from the log.
        for statement, row in preference_statements(change):
            await self._async_queries(statement, row)

    async def read_account(self, member: Member) -> AccountPreferences:
        return member_account_preferences(
            member, await self._async_queries(SELECT_ACCOUNT_PREFERENCES, (shard_of(member), member))
        )

    async def write_account(self, change: AccountPreferencesChange) -> None:
        if statement := account_preferences_statement(change):
            await self._async_queries(*statement)


# User blocks. Each of the two users has a row in the table by member, and a row in the table by the other account.

ACCOUNTS_PER_QUERY = 100
FIRST_QUERY_ROW_LIMIT = 200
"""Maximum rows of a member that the first query reads, of both directions together. Hardly any user has more."""

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins:
# NEVER, the end of a user block that is in force.
_WRITE_USER_BLOCK = (
    "INSERT INTO user_blocks (block, member, other_account, direction, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_WRITE_USER_BLOCK_BY_ACCOUNT = """
    INSERT INTO user_blocks_by_account (other_account, shard, member, direction, until) VALUES (?, ?, ?, ?, ?)
    USING TIMESTAMP ?
"""
SELECT_USER_BLOCKS = "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? LIMIT ?"
_SELECT_BLOCKED_BY_MEMBER = (
    "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? AND direction = 'blocks'"
)
_SELECT_BLOCKERS = (
    "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? AND direction = 'blocked_by' LIMIT ?"
)
_SELECT_BLOCKERS_BY_ID = """
    SELECT other_account, until FROM user_blocks
    WHERE block = ? AND member = ? AND direction = 'blocked_by' AND other_account IN ?
"""
SELECT_USER_BLOCKS_OF_ACCOUNT = "SELECT member, until FROM user_blocks_by_account WHERE other_account = ? AND shard = ?"


class CassandraUserBlocks:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, user_blocks: Collection[UserBlock]) -> None:
        # Write the table by account first: once the inbox hides an account, no alert that names the account may be
        # sent. After an interruption the caller writes all rows again.
        sides = [side for user_block in user_blocks for side in user_block.sides]
        self._cluster.query_each(_WRITE_USER_BLOCK_BY_ACCOUNT, [_account_row(side) for side in sides])
        self._cluster.query_each(_WRITE_USER_BLOCK, [_member_row(side) for side in sides])


async def user_blocks_of(
    async_queries: AsyncQueries, member: Member, rows: Sequence[Any], follows: Iterable[Subject], max_blockers: int
) -> UserBlockEnds:
    """Return the user blocks of the member. `rows` are those of SELECT_USER_BLOCKS.

    If that query has reached its row limit, query each direction by itself. If more than `max_blockers` accounts have
    blocked the member, return the first of them by id, and those that the member follows.
    """
    if len(rows) == user_block_query_limit(max_blockers):
        key = block_of(member), member
        blocked_by_member, blockers = await async_queries.query_all(
            [(_SELECT_BLOCKED_BY_MEMBER, key), (_SELECT_BLOCKERS, (*key, max_blockers))]
        )
        followed_blocker_queries: list[Row] = []
        if len(blockers) == max_blockers:
            followed_blocker_queries = [(*key, batch) for batch in batches(subject_owners(follows), ACCOUNTS_PER_QUERY)]
        followed_blockers = await async_queries.query_each(_SELECT_BLOCKERS_BY_ID, followed_blocker_queries)
        rows = [*blocked_by_member, *blockers, *chain(*followed_blockers)]
    return user_block_ends((UserId(row.other_account), from_ms(row.until)) for row in rows)


def user_block_query_limit(max_blockers: int) -> int:
    return min(FIRST_QUERY_ROW_LIMIT, max_blockers)


def _member_row(side: UserBlockSide) -> tuple[object, ...]:
    return block_of(side.member), side.member, side.other_account, str(side.direction), to_ms(side.until), side.sequence


def _account_row(side: UserBlockSide) -> tuple[object, ...]:
    return side.other_account, shard_of(side.member), side.member, str(side.direction), to_ms(side.until), side.sequence
