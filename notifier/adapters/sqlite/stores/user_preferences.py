"""Stores subject preferences, account preferences and user blocks in core.db."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from notifier.adapters.sqlite.async_reader import SqliteReader, SqliteWriter
from notifier.adapters.sqlite.connection import Database, batches
from notifier.adapters.sqlite.files import statement
from notifier.codec.preferences import Told, overall_of, said
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_MEMBERS, Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord, overall_sets
from notifier.domain.users.subject_preferences import ALWAYS, BlockMute, Volume, Want, Word, standing, wanting
from notifier.domain.users.user_blocks import Apart, Half, Parting, apart, owners
from notifier.ports.users import Pair

# Account preferences in core.db: a row per field. A shard is one range of keys.

_WRITE = statement("prefer")
_OF_RANGE = "SELECT member, thing, value, at FROM preferences WHERE member BETWEEN ? AND ? ORDER BY member, thing"

_OF_SOME = "SELECT member, thing, value, at FROM preferences WHERE member IN (SELECT value FROM json_each(?))"

StoredAccountPreferences = tuple[int, str, str, int]


class SqliteOveralls:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, words: Collection[OverallWord]) -> None:
        rows = [(w.member, thing, value, to_ms(w.at)) for w in words for thing, value in said(w).items()]
        if rows:
            with self._db.write() as c:
                c.executemany(_WRITE, rows)

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        with self._db.read() as c:
            rows = c.execute(_OF_SOME, (json.dumps(list(members)),)).fetchall()
        return _standing(rows)

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        with self._db.read() as c:
            return overall_sets(_standing(_of_shard(c, shard)))


def told_in(c: sqlite3.Connection, shard: int) -> Iterator[tuple[Member, Told]]:
    """Yield the members of a shard that have account preferences, with the stored fields."""
    for member, rows in groupby(_of_shard(c, shard), itemgetter(0)):
        yield Member(member), tuple((thing, value) for _, thing, value, _ in rows)


def _of_shard(c: sqlite3.Connection, shard: int) -> Iterable[StoredAccountPreferences]:
    return c.execute(_OF_RANGE, (shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS - 1))


def overall_in(c: sqlite3.Connection, member: Member) -> Overall:
    return _standing(c.execute(_OF_RANGE, (member, member))).get(member, NOTHING_SAID)


def _standing(rows: Iterable[StoredAccountPreferences]) -> Mapping[Member, Overall]:
    preferences: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for member, thing, value, at in rows:
        preferences[Member(member)][thing] = value, from_ms(at)
    return {member: overall_of(things) for member, things in preferences.items()}


# Subject preferences in core.db: members' own rows, and mutes of whole blocks, which they override.

BATCH = 4_096
"""Mutes per transaction, so that other writers get their turn during an import of any size."""

_COLUMNS = "block, slot, subject, volume, volume_at, visible_from, visible_from_at, members"

_WRITE_PREFERENCE = statement("want")
_MUTE = statement("mute_block")
_OF_MEMBER = f"SELECT {_COLUMNS} FROM wants WHERE block = ? AND slot IN (?, ?)"
_OF_PAIR = f"SELECT {_COLUMNS} FROM wants WHERE block = ? AND slot = ? AND subject = ?"
_OF_SHARD = f"SELECT {_COLUMNS} FROM wants WHERE subject = ? AND block / 128 = ?"

UNSAID = -1

Stored = tuple[int, int, str, str, int, int, int, bytes | None]


class SqliteWants:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, words: Collection[Word]) -> None:
        if words:
            with self._db.write() as c:
                c.executemany(_WRITE_PREFERENCE, [_row(change) for change in words])

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        for batch in batches(((m.block, BLOCK_SLOT, str(m.subject), m.members) for m in mutes), BATCH):
            with self._db.write() as c:
                c.executemany(_MUTE, batch)

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        preferences: dict[Pair, Want] = {}
        with self._db.read() as c:
            for subject, member in pairs:
                for row in c.execute(_OF_PAIR, (*divmod(member, BLOCK_MEMBERS), str(subject))):
                    preferences[subject, member] = _word(row)
        return preferences

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        with self._db.read() as c:
            rows = c.execute(_OF_SHARD, (str(subject), shard)).fetchall()
        return wanting(*_sorted(rows))


def _row(word: Word) -> tuple[object, ...]:
    """Return the row of a change. A field that it doesn't set has a time before all others."""
    block, slot = divmod(word.member, BLOCK_MEMBERS)
    at, volume, since = to_ms(word.at), word.volume, word.visible_from
    of_volume = (str(Volume.DEFAULT), UNSAID) if volume is None else (str(volume), at)
    of_since = (to_ms(ALWAYS), UNSAID) if since is None else (to_ms(since), at)
    return block, slot, str(word.subject), *of_volume, *of_since


def wants_of(c: sqlite3.Connection, member: Member) -> Mapping[Subject, Want]:
    rows = c.execute(_OF_MEMBER, (*divmod(member, BLOCK_MEMBERS), BLOCK_SLOT)).fetchall()
    return standing(member, *_sorted(rows))


def _sorted(rows: Iterable[Stored]) -> tuple[list[Want], list[BlockMute]]:
    own, mutes = list[Want](), list[BlockMute]()
    for row in rows:
        block, _, subject, *_, members = row
        if members is None:
            own.append(_word(row))
        else:
            mutes.append(BlockMute(subject=Subject.parse(subject), block=block, members=members))
    return own, mutes


def _word(row: Stored) -> Want:
    block, slot, subject, volume, volume_at, visible_from, visible_from_at, _ = row
    return Want(
        subject=Subject.parse(subject),
        member=Member(block * BLOCK_MEMBERS + slot),
        at=from_ms(max(volume_at, visible_from_at)),
        volume=Volume(volume),
        visible_from=from_ms(visible_from),
    )


class SqlitePreferences:
    def __init__(self, db: Database, reader: SqliteReader | None = None, writer: SqliteWriter | None = None) -> None:
        self._db = db
        self._wants, self._overalls = SqliteWants(db), SqliteOveralls(db)
        self._reader = reader or SqliteReader()
        self._writer = writer or SqliteWriter()

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        return await self._reader(self._read, member)

    async def write(self, word: Word) -> None:
        await self._writer(self._wants.write, [word])

    async def overall(self, member: Member) -> Overall:
        return await self._reader(self._overall, member)

    async def say(self, word: OverallWord) -> None:
        await self._writer(self._overalls.write, [word])

    def _read(self, member: Member) -> Mapping[Subject, Want]:
        with self._db.read() as c:
            return wants_of(c, member)

    def _overall(self, member: Member) -> Overall:
        with self._db.read() as c:
            return overall_in(c, member)


# User blocks in core.db: a row for each side, both in one transaction.

BLOCK_BATCH = 4_096
"""User blocks per transaction, so that other writers get their turn."""

_WRITE_BLOCK = statement("part")
_OWN = "SELECT other, until FROM partings WHERE member = ? AND side = 'blocks'"
_OTHERS = "SELECT other, until FROM partings WHERE member = ? AND side = 'blocked_by' ORDER BY other LIMIT ?"
_BY_NAME = """
    SELECT other, until FROM partings
    WHERE member = ? AND side = 'blocked_by' AND other IN (SELECT value FROM json_each(?))
"""


class SqlitePartings:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, partings: Collection[Parting]) -> None:
        for batch in batches(partings, BLOCK_BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE_BLOCK, [_block_row(half) for parting in batch for half in parting.halves])


def apart_in(c: sqlite3.Connection, member: Member, follows: Iterable[Subject], most: int) -> Apart:
    """Return the user blocks.

    If more than `most` accounts block the member: the first, and those the member follows.
    """
    rows, blockers = c.execute(_OWN, (member,)).fetchall(), c.execute(_OTHERS, (member, most)).fetchall()
    if len(blockers) == most:
        blockers += c.execute(_BY_NAME, (member, json.dumps(owners(follows)))).fetchall()
    return apart((UserId(account), from_ms(until)) for account, until in (*rows, *blockers))


def _block_row(half: Half) -> tuple[object, ...]:
    return half.member, half.other, str(half.side), to_ms(half.until), half.sequence
