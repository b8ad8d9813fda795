"""Stores subject preferences, account preferences and user blocks in core.db."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from notifier.adapters.sqlite.async_queries import SqliteReader, SqliteWriter
from notifier.adapters.sqlite.connections_and_transactions import Database, batches
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.account_preferences import EncodedPreferences, decode_preferences, encode_change
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS, WHOLE_BLOCK_SLOT, Bits
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
    account_preference_sets,
)
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    MemberBlockMutes,
    PreferenceChange,
    SubjectPreference,
    Volume,
    current_preferences,
    preference_sets,
)
from notifier.domain.users.user_blocks import UserBlock, UserBlockEnds, UserBlockSide, subject_owners, user_block_ends
from notifier.ports.viewers_preferences_user_blocks import SubjectAndMember

# Account preferences in core.db: one row per member and field.

_WRITE_FIELD = load_statement("put_account_preference")
_SELECT_FIELDS_OF_MEMBER_SPAN = (
    "SELECT member, field, value, at FROM account_preferences WHERE member BETWEEN ? AND ? ORDER BY member, field"
)

_SELECT_ACCOUNT_PREFERENCES_OF_MEMBERS = (
    "SELECT member, field, value, at FROM account_preferences WHERE member IN (SELECT value FROM json_each(?))"
)

StoredField = tuple[int, str, str, int]
"""Member, field, value, and time of the change."""


class SqliteAccountPreferences:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, changes: Collection[AccountPreferencesChange]) -> None:
        rows = [
            (change.member, field, value, to_ms(change.at))
            for change in changes
            for field, value in encode_change(change).items()
        ]
        if rows:
            with self._db.write() as c:
                c.executemany(_WRITE_FIELD, rows)

    def read_current(self, members: Collection[Member]) -> Mapping[Member, AccountPreferences]:
        with self._db.read() as c:
            rows = c.execute(_SELECT_ACCOUNT_PREFERENCES_OF_MEMBERS, (json.dumps(list(members)),)).fetchall()
        return _account_preferences_of(rows)

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        with self._db.read() as c:
            return account_preference_sets(_account_preferences_of(_fields_of_shard(c, shard)))


def account_fields_of(c: sqlite3.Connection, shard: int) -> Iterator[tuple[Member, EncodedPreferences]]:
    """Yield the members of a shard with their stored fields. Members without any are left out."""
    for member, rows in groupby(_fields_of_shard(c, shard), itemgetter(0)):
        yield Member(member), tuple((field, value) for _, field, value, _ in rows)


def _fields_of_shard(c: sqlite3.Connection, shard: int) -> Iterable[StoredField]:
    return c.execute(_SELECT_FIELDS_OF_MEMBER_SPAN, (shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS - 1))


def member_account_preferences(c: sqlite3.Connection, member: Member) -> AccountPreferences:
    return _account_preferences_of(c.execute(_SELECT_FIELDS_OF_MEMBER_SPAN, (member, member))).get(
        member, DEFAULT_ACCOUNT_PREFERENCES
    )


def _account_preferences_of(rows: Iterable[StoredField]) -> Mapping[Member, AccountPreferences]:
    preferences: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for member, field, value, at in rows:
        preferences[Member(member)][field] = value, from_ms(at)
    return {member: decode_preferences(fields) for member, fields in preferences.items()}


# Subject preferences in core.db: members' own rows, and rows with the mutes of a whole block of members. An own row
# overrides the block's row.

MUTES_PER_TRANSACTION = 4_096

_COLUMNS = "block, slot, subject, volume, volume_at, visible_from, visible_from_at, members"

_WRITE_PREFERENCE = load_statement("put_subject_preference")
_PUT_MUTE = load_statement("put_block_mute")
_SELECT_PREFERENCES = f"SELECT {_COLUMNS} FROM subject_preferences WHERE block = ? AND slot IN (?, ?)"
_SELECT_PREFERENCE = f"SELECT {_COLUMNS} FROM subject_preferences WHERE block = ? AND slot = ? AND subject = ?"
# A shard has 128 blocks.
_SELECT_PREFERENCES_OF_SHARD = f"SELECT {_COLUMNS} FROM subject_preferences WHERE subject = ? AND block / 128 = ?"

NEVER_SET = -1
"""Time of a field that was never set: earlier than any change."""

StoredPreference = tuple[int, int, str, str, int, int, int, bytes | None]
"""Values of _COLUMNS. Only a block row has `members`: a bitmap of the members who muted the subject."""


class SqliteSubjectPreferences:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, changes: Collection[PreferenceChange]) -> None:
        if changes:
            with self._db.write() as c:
                c.executemany(_WRITE_PREFERENCE, [_preference_parameters(change) for change in changes])

    def write_mutes(self, mutes: Iterable[MemberBlockMutes]) -> None:
        for batch in batches(
            ((m.block, WHOLE_BLOCK_SLOT, str(m.subject), m.members) for m in mutes), MUTES_PER_TRANSACTION
        ):
            with self._db.write() as c:
                c.executemany(_PUT_MUTE, batch)

    def read_own(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, SubjectPreference]:
        preferences: dict[SubjectAndMember, SubjectPreference] = {}
        with self._db.read() as c:
            for subject, member in pairs:
                for row in c.execute(_SELECT_PREFERENCE, (*divmod(member, BLOCK_MEMBERS), str(subject))):
                    preferences[subject, member] = _preference(row)
        return preferences

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        with self._db.read() as c:
            rows = c.execute(_SELECT_PREFERENCES_OF_SHARD, (str(subject), shard)).fetchall()
        return preference_sets(*_preferences_and_mutes(rows))


def _preference_parameters(change: PreferenceChange) -> tuple[object, ...]:
    """Return the row of a change. A field that the change leaves out gets the time NEVER_SET."""
    block, slot = divmod(change.member, BLOCK_MEMBERS)
    at, volume, visible_from = to_ms(change.at), change.volume, change.visible_from
    volume_and_time = (str(Volume.DEFAULT), NEVER_SET) if volume is None else (str(volume), at)
    visible_from_and_time = (to_ms(ALWAYS), NEVER_SET) if visible_from is None else (to_ms(visible_from), at)
    return block, slot, str(change.subject), *volume_and_time, *visible_from_and_time


def subject_preferences_of(c: sqlite3.Connection, member: Member) -> Mapping[Subject, SubjectPreference]:
    rows = c.execute(_SELECT_PREFERENCES, (*divmod(member, BLOCK_MEMBERS), WHOLE_BLOCK_SLOT)).fetchall()
    return current_preferences(member, *_preferences_and_mutes(rows))


def _preferences_and_mutes(rows: Iterable[StoredPreference]) -> tuple[list[SubjectPreference], list[MemberBlockMutes]]:
    own, mutes = list[SubjectPreference](), list[MemberBlockMutes]()
    for row in rows:
        block, _, subject, *_, members = row
        if members is None:
            own.append(_preference(row))
        else:
            mutes.append(MemberBlockMutes(subject=Subject.parse(subject), block=block, members=members))
    return own, mutes


def _preference(row: StoredPreference) -> SubjectPreference:
    block, slot, subject, volume, volume_at, visible_from, visible_from_at, _ = row
    return SubjectPreference(
        subject=Subject.parse(subject),
        member=Member(block * BLOCK_MEMBERS + slot),
        at=from_ms(max(volume_at, visible_from_at)),
        volume=Volume(volume),
        visible_from=from_ms(visible_from),
    )


class SqlitePreferences:
    """Preferences of single users, read and written without blocking the event loop."""

    def __init__(self, db: Database, reader: SqliteReader | None = None, writer: SqliteWriter | None = None) -> None:
        self._db = db
        self._subject_preferences = SqliteSubjectPreferences(db)
        self._account_preferences = SqliteAccountPreferences(db)
        self._reader = reader or SqliteReader()
        self._writer = writer or SqliteWriter()

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        return await self._reader(self._read, member)

    async def write(self, change: PreferenceChange) -> None:
        await self._writer(self._subject_preferences.write, [change])

    async def read_account(self, member: Member) -> AccountPreferences:
        return await self._reader(self._account, member)

    async def write_account(self, change: AccountPreferencesChange) -> None:
        await self._writer(self._account_preferences.write, [change])

    def _read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        with self._db.read() as c:
            return subject_preferences_of(c, member)

    def _account(self, member: Member) -> AccountPreferences:
        with self._db.read() as c:
            return member_account_preferences(c, member)


# User blocks in core.db: a row for each side, both in one transaction.

USER_BLOCKS_PER_TRANSACTION = 4_096

_WRITE_USER_BLOCK = load_statement("put_user_block")
_SELECT_BLOCKED_BY_MEMBER = "SELECT other_account, until FROM user_blocks WHERE member = ? AND direction = 'blocks'"
_SELECT_BLOCKERS = """
    SELECT other_account, until FROM user_blocks
    WHERE member = ? AND direction = 'blocked_by' ORDER BY other_account LIMIT ?
"""
_SELECT_BLOCKERS_BY_ID = """
    SELECT other_account, until FROM user_blocks
    WHERE member = ? AND direction = 'blocked_by' AND other_account IN (SELECT value FROM json_each(?))
"""


class SqliteUserBlocks:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, user_blocks: Collection[UserBlock]) -> None:
        for batch in batches(user_blocks, USER_BLOCKS_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(
                    _WRITE_USER_BLOCK,
                    [_user_block_parameters(side) for user_block in batch for side in user_block.sides],
                )


def user_blocks_of(
    c: sqlite3.Connection, member: Member, follows: Iterable[Subject], max_blockers: int
) -> UserBlockEnds:
    """Return, for each other account, when its user block with the member ends.

    If both block each other, the later end counts. Of the accounts that block the member, only the first `max_blockers`
    by id and the followed ones are included.
    """
    rows = c.execute(_SELECT_BLOCKED_BY_MEMBER, (member,)).fetchall()
    blockers = c.execute(_SELECT_BLOCKERS, (member, max_blockers)).fetchall()
    if len(blockers) == max_blockers:
        blockers += c.execute(_SELECT_BLOCKERS_BY_ID, (member, json.dumps(subject_owners(follows)))).fetchall()
    return user_block_ends((UserId(account), from_ms(until)) for account, until in (*rows, *blockers))


def _user_block_parameters(side: UserBlockSide) -> tuple[object, ...]:
    return side.member, side.other_account, str(side.direction), to_ms(side.until), side.sequence
