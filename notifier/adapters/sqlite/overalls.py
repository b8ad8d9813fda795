"""What people say of everything, in core.db: a row a thing, and a shard's are one range."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.codec.overalls import Told, overall_of, said
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord, overall_sets

_WRITE = statement("prefer")
_OF_RANGE = "SELECT member, thing, value, at FROM preferences WHERE member BETWEEN ? AND ? ORDER BY member, thing"

_OF_SOME = "SELECT member, thing, value, at FROM preferences WHERE member IN (SELECT value FROM json_each(?))"

Stored = tuple[int, str, str, int]


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
    """By all who said something, as it stands there."""
    for member, rows in groupby(_of_shard(c, shard), itemgetter(0)):
        yield Member(member), tuple((thing, value) for _, thing, value, _ in rows)


def _of_shard(c: sqlite3.Connection, shard: int) -> Iterable[Stored]:
    return c.execute(_OF_RANGE, (shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS - 1))


def overall_in(c: sqlite3.Connection, member: Member) -> Overall:
    return _standing(c.execute(_OF_RANGE, (member, member))).get(member, NOTHING_SAID)


def _standing(rows: Iterable[Stored]) -> Mapping[Member, Overall]:
    found: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for member, thing, value, at in rows:
        found[Member(member)][thing] = value, from_ms(at)
    return {member: overall_of(things) for member, things in found.items()}
