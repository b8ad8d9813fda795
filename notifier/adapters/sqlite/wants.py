"""Wants in core.db: a member's own rows, and the mutes of whole blocks that they override."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping

from notifier.adapters.sqlite.batches import batches
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.subject_preferences import ALWAYS, BlockMute, Volume, Want, Word, standing, wanting
from notifier.ports.user_preferences import Pair

BATCH = 4_096
"""Mutes in a transaction: an import of any size lets others in."""

_COLUMNS = "block, slot, subject, volume, volume_at, visible_from, visible_from_at, members"

_WRITE = statement("want")
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
                c.executemany(_WRITE, [_row(word) for word in words])

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        for some in batches(((m.block, BLOCK_SLOT, str(m.subject), m.members) for m in mutes), BATCH):
            with self._db.write() as c:
                c.executemany(_MUTE, some)

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        found: dict[Pair, Want] = {}
        with self._db.read() as c:
            for subject, member in pairs:
                for row in c.execute(_OF_PAIR, (*divmod(member, BLOCK_MEMBERS), str(subject))):
                    found[subject, member] = _word(row)
        return found

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        with self._db.read() as c:
            rows = c.execute(_OF_SHARD, (str(subject), shard)).fetchall()
        return wanting(*_sorted(rows))


def _row(word: Word) -> tuple[object, ...]:
    """What it says nothing of is as of before all moments."""
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
        volume=Volume(volume) if volume_at > UNSAID else Volume.DEFAULT,  # earlier versions wrote `all` there
        visible_from=from_ms(visible_from),
    )
