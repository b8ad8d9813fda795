"""Stores subject preferences, account preferences and user blocks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.batching import Row, batched_rows, batches, put_in_both_tables
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.codec.preferences import EncodedPreferences, decode_preferences, encode_change
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_BLOCKS, Bits, block_of, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
    account_preference_sets,
)
from notifier.domain.users.subject_preferences import (
    BlockMute,
    PreferenceChange,
    SubjectPreference,
    Volume,
    current_preferences,
    preference_sets,
)
from notifier.domain.users.user_blocks import BlockEnds, UserBlock, UserBlockSide, block_ends, subject_owners
from notifier.ports.users import Pair

# Account preferences: a row per field. A shard is a partition.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order.
_WRITE = "INSERT INTO account_preferences (shard, member, field, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
OF_ONE = "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ? AND member = ?"
OF_SOME = "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ? AND member IN ?"
OF_SHARD = "SELECT member, field, value, WRITETIME(value) AS at FROM account_preferences WHERE shard = ?"

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timestamps in microseconds."""


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
        answers = self._cluster.query_each(OF_SOME, list(by_shard.items()))
        return account_preferences_of(row for rows in answers for row in rows)

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return account_preference_sets(account_preferences_of(self._cluster.query(OF_SHARD, (shard,))))


def account_preferences_statement(change: AccountPreferencesChange) -> tuple[str, Row] | None:
    """Return one atomic message that writes the change to one partition, or None if the change is empty."""
    place, at = (shard_of(change.member), change.member), to_ms(change.at) * _MICROSECONDS
    rows = [(*place, field, value, at) for field, value in encode_change(change).items()]
    return batched_rows(_WRITE, rows) if rows else None


def account_preferences_of(rows: Iterable[Any]) -> Mapping[Member, AccountPreferences]:
    preferences: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for row in rows:
        preferences[Member(row.member)][row.field] = row.value, from_ms(row.at // _MICROSECONDS)
    return {member: decode_preferences(fields) for member, fields in preferences.items()}


def account_fields_of(rows: Iterable[Any]) -> Iterator[tuple[Member, EncodedPreferences]]:
    """Yield members and their account preferences from the answer to OF_SHARD, in the table's order."""
    for member, group in groupby(rows, attrgetter("member")):
        yield Member(member), tuple((row.field, row.value) for row in group)


def member_account_preferences(member: Member, rows: Iterable[Any]) -> AccountPreferences:
    return account_preferences_of(rows).get(member, DEFAULT_ACCOUNT_PREFERENCES)


# Subject preferences: each is stored by member block and by subject. The latest change of a field wins.

# The write timestamp is the time of the change: the latest change of a field wins, regardless of arrival order. A
# change leaves other fields alone.
_FIELD_SETS: tuple[tuple[str, ...], ...] = (("volume",), ("visible_from",), ("volume", "visible_from"))
WRITE = {
    of: f"INSERT INTO subject_preferences (block, slot, subject, {', '.join(of)})"
    f" VALUES (?, ?, ?, {', '.join('?' * len(of))}) USING TIMESTAMP ?"
    for of in _FIELD_SETS
}
WRITE_OF_SUBJECT = {
    of: f"INSERT INTO preferences_by_subject (block, slot, subject, {', '.join(of)}, shard)"
    f" VALUES (?, ?, ?, {', '.join('?' * len(of))}, ?) USING TIMESTAMP ?"
    for of in _FIELD_SETS
}
_FIELDS = "volume, visible_from, WRITETIME(volume) AS volume_at, WRITETIME(visible_from) AS visible_from_at"
OF_MEMBER = f"SELECT slot, subject, members, {_FIELDS} FROM subject_preferences WHERE block = ? AND slot IN ?"
_MUTE = "INSERT INTO subject_preferences (block, slot, subject, members) VALUES (?, ?, ?, ?)"
_MUTE_OF_SUBJECT = "INSERT INTO preferences_by_subject (subject, shard, block, slot, members) VALUES (?, ?, ?, ?, ?)"
_OF_PAIRS = f"SELECT slot, {_FIELDS} FROM subject_preferences WHERE block = ? AND slot IN ? AND subject = ?"
_OF_SHARD = f"SELECT block, slot, members, {_FIELDS} FROM preferences_by_subject WHERE subject = ? AND shard = ?"

Statement = tuple[str, Row]


class CassandraSubjectPreferences:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, changes: Collection[PreferenceChange]) -> None:
        # Write the subject table first: alerts stop no later than the inbox hides bursts. After an interruption the
        # caller writes both again.
        for statements in zip(*(preference_statements(change) for change in changes), strict=True):
            self._cluster.query_all(statements)

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        put_in_both_tables(self._cluster, (_MUTE_OF_SUBJECT, _MUTE), map(_mute, mutes))

    def read_current(self, pairs: Collection[Pair]) -> Mapping[Pair, SubjectPreference]:
        by_block: defaultdict[tuple[int, Subject], list[int]] = defaultdict(list)
        for subject, member in pairs:
            by_block[member // BLOCK_MEMBERS, subject].append(member % BLOCK_MEMBERS)
        questions = [(block, sorted(slots), str(subject)) for (block, subject), slots in by_block.items()]
        answers = zip(by_block, self._cluster.query_each(_OF_PAIRS, questions), strict=True)
        preferences = [_preference(block, subject, row) for (block, subject), rows in answers for row in rows]
        return {(preference.subject, preference.member): preference for preference in preferences}

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self._cluster.query(_OF_SHARD, (str(subject), shard))
        mutes = [BlockMute(subject=subject, block=r.block, members=r.members) for r in rows if r.slot == BLOCK_SLOT]
        return preference_sets([_preference(row.block, subject, row) for row in rows if row.slot < BLOCK_SLOT], mutes)


def preference_statements(change: PreferenceChange) -> tuple[Statement, Statement]:
    """Return the statements for the subject table and the block table."""
    block, slot = divmod(change.member, BLOCK_MEMBERS)
    fields = {
        "volume": change.volume and str(change.volume),
        "visible_from": change.visible_from and to_ms(change.visible_from),
    }
    columns = tuple(name for name, value in fields.items() if value is not None)
    row, at = (
        (block, slot, str(change.subject), *(fields[name] for name in columns)),
        to_ms(change.at) * _MICROSECONDS,
    )
    return (WRITE_OF_SUBJECT[columns], (*row, shard_of(change.member), at)), (WRITE[columns], (*row, at))


def _mute(mute: BlockMute) -> tuple[Row, Row]:
    subject, block, members = str(mute.subject), mute.block, mute.members
    return (subject, block // SHARD_BLOCKS, block, BLOCK_SLOT, members), (block, BLOCK_SLOT, subject, members)


def subject_preferences_of(member: Member, rows: Iterable[Any]) -> Mapping[Subject, SubjectPreference]:
    """Return the member's preferences from the answer to OF_MEMBER."""
    block, own, mutes = member // BLOCK_MEMBERS, list[SubjectPreference](), list[BlockMute]()
    for row in rows:
        subject = Subject.parse(row.subject)
        if row.slot == BLOCK_SLOT:
            mutes.append(BlockMute(subject=subject, block=block, members=row.members))
        else:
            own.append(_preference(block, subject, row))
    return current_preferences(member, own, mutes)


def _preference(block: int, subject: Subject, row: Any) -> SubjectPreference:
    return SubjectPreference(
        subject=subject,
        member=Member(block * BLOCK_MEMBERS + row.slot),
        at=from_ms(max(row.volume_at or 0, row.visible_from_at or 0) // _MICROSECONDS),
        volume=Volume(row.volume or Volume.DEFAULT),
        visible_from=from_ms(row.visible_from or 0),
    )


class CassandraPreferences:
    """Preferences of users. Reads and writes use a quorum, so that each read sees all acknowledged writes."""

    def __init__(self, reader: CassandraReader) -> None:
        self._reader = reader

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        return subject_preferences_of(member, await self._reader(OF_MEMBER, (block, [slot, BLOCK_SLOT])))

    async def write(self, change: PreferenceChange) -> None:
        # In the order of the indexer, for the same reasons. After an interruption the user or the indexer writes it
        # again.
        for statement, row in preference_statements(change):
            await self._reader(statement, row)

    async def read_account(self, member: Member) -> AccountPreferences:
        return member_account_preferences(member, await self._reader(OF_ONE, (shard_of(member), member)))

    async def write_account(self, change: AccountPreferencesChange) -> None:
        if statement := account_preferences_statement(change):
            await self._reader(*statement)


# User blocks: each side is stored by the member's block and by the other account. The highest sequence wins.

NAMES = 100
"""Accounts of a partition per query. A node warns about many more."""
FIRST_BLOCKS = 200
"""Rows of a member, of both sides, in one query. Hardly any user has more."""

# The sequence is the write timestamp: the highest wins regardless of arrival order. On a tie the larger value wins,
# which is the block.
_WRITE_BLOCK = (
    "INSERT INTO user_blocks (block, member, other_account, direction, until) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_WRITE_OF_ACCOUNT = """
    INSERT INTO user_blocks_by_account (other_account, shard, member, direction, until) VALUES (?, ?, ?, ?, ?)
    USING TIMESTAMP ?
"""
OF_BOTH = "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? LIMIT ?"
_OWN = "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? AND direction = 'blocks'"
_OTHERS = (
    "SELECT other_account, until FROM user_blocks WHERE block = ? AND member = ? AND direction = 'blocked_by' LIMIT ?"
)
_BY_NAME = """
    SELECT other_account, until FROM user_blocks
    WHERE block = ? AND member = ? AND direction = 'blocked_by' AND other_account IN ?
"""
OF_ACCOUNT = "SELECT member, until FROM user_blocks_by_account WHERE other_account = ? AND shard = ?"


class CassandraUserBlocks:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, blocks: Collection[UserBlock]) -> None:
        # Write by account first: a user must not be alerted of what the inbox hides. After any interruption the caller
        # writes everything again.
        sides = [side for block in blocks for side in block.sides]
        self._cluster.query_each(_WRITE_OF_ACCOUNT, [_of_account(side) for side in sides])
        self._cluster.query_each(_WRITE_BLOCK, [_of_block(side) for side in sides])


async def user_blocks_of(
    reader: CassandraReader, member: Member, rows: Sequence[Any], follows: Iterable[Subject], most: int
) -> BlockEnds:
    """Return the user blocks from the answer to OF_BOTH with the limit `few(most)`. Query again if that wasn't all.

    If more than `most` accounts block the member, return the first of them and those that the member follows.
    """
    if len(rows) == block_query_limit(most):
        place = block_of(member), member
        own, blockers = await reader.query_all([(_OWN, place), (_OTHERS, (*place, most))])
        named = [(*place, batch) for batch in batches(subject_owners(follows), NAMES)] if len(blockers) == most else []
        rows = [*own, *blockers, *chain(*await reader.query_each(_BY_NAME, named))]
    return block_ends((UserId(row.other_account), from_ms(row.until)) for row in rows)


def block_query_limit(most: int) -> int:
    """Return the limit of OF_BOTH."""
    return min(FIRST_BLOCKS, most)


def _of_block(side: UserBlockSide) -> tuple[object, ...]:
    return block_of(side.member), side.member, side.other_account, str(side.direction), to_ms(side.until), side.sequence


def _of_account(side: UserBlockSide) -> tuple[object, ...]:
    return side.other_account, shard_of(side.member), side.member, str(side.direction), to_ms(side.until), side.sequence
