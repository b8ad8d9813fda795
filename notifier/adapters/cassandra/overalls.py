"""What people say of everything: a row a thing, of which what was said last stands; a shard is a partition."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row, together
from notifier.codec.moments import from_ms, to_ms
from notifier.codec.overalls import Told, overall_of, said
from notifier.domain.audience.bitmap import Bits, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord, overall_sets

# The moment is the write timestamp: what was said last of a thing stands, in whatever order the words come.
_WRITE = "INSERT INTO preferences (shard, member, thing, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
OF_ONE = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ? AND member = ?"
OF_SOME = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ? AND member IN ?"
OF_SHARD = "SELECT member, thing, value, WRITETIME(value) AS at FROM preferences WHERE shard = ?"

_MICROSECONDS = 1_000
"""In a millisecond: what Cassandra counts write timestamps in."""


class CassandraOveralls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, words: Collection[OverallWord]) -> None:
        self._cluster.ask_all([told for word in words if (told := written(word))])

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        by_shard = defaultdict[int, list[Member]](list)
        for member in members:
            by_shard[shard_of(member)].append(member)
        answers = self._cluster.ask_each(OF_SOME, list(by_shard.items()))
        return overalls_of(row for rows in answers for row in rows)

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return overall_sets(overalls_of(self._cluster.ask(OF_SHARD, (shard,))))


def written(word: OverallWord) -> tuple[str, Row] | None:
    """All that a word says, in one message to one partition, so that it stands as a whole. None for nothing."""
    place, at = (shard_of(word.member), word.member), to_ms(word.at) * _MICROSECONDS
    rows = [(*place, thing, value, at) for thing, value in said(word).items()]
    return together(_WRITE, rows) if rows else None


def overalls_of(rows: Iterable[Any]) -> Mapping[Member, Overall]:
    found: defaultdict[Member, dict[str, tuple[str, datetime]]] = defaultdict(dict)
    for row in rows:
        found[Member(row.member)][row.thing] = row.value, from_ms(row.at // _MICROSECONDS)
    return {member: overall_of(things) for member, things in found.items()}


def told_by(rows: Iterable[Any]) -> Iterator[tuple[Member, Told]]:
    """By all who said something, by the answer to OF_SHARD, whose order is the table's."""
    for member, some in groupby(rows, attrgetter("member")):
        yield Member(member), tuple((row.thing, row.value) for row in some)


def overall_by(member: Member, rows: Iterable[Any]) -> Overall:
    return overalls_of(rows).get(member, NOTHING_SAID)
