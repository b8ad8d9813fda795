"""The flags of accounts: a row for each flag of which something was said, and what was said last stands by itself."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row, batches
from notifier.adapters.cassandra.twofold import ROWS, put_by_subject
from notifier.domain.audience.account_flags import Flag, Flagged, Place, flying
from notifier.domain.audience.bitmap import Bits, shard_of
from notifier.domain.ids import Member

# The sequence is the write timestamp: the highest stands, in whatever order they come; of equals the larger value does,
# which is the one that sets the flag.
_WRITE = "INSERT INTO flags (flag, shard, member, is_on) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
_SAID = "SELECT member, is_on, WRITETIME(is_on) AS sequence FROM flags WHERE flag = ? AND shard = ?"
STANDING = f"{_SAID} AND member IN ?"


class CassandraFlags:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, flagged: Iterable[Flagged]) -> None:
        for some in batches(map(_row, flagged), ROWS):
            put_by_subject(self._cluster, _WRITE, some)

    def standing(self, places: Collection[Place]) -> Mapping[Place, Flagged]:
        asked: defaultdict[tuple[Flag, int], list[Member]] = defaultdict(list)
        for flag, member in places:
            asked[flag, shard_of(member)].append(member)
        questions = [(str(flag), shard, sorted(some)) for (flag, shard), some in asked.items()]
        answers = zip(asked, self._cluster.ask_each(STANDING, questions), strict=True)
        found = [_flagged(flag, row) for (flag, _), rows in answers for row in rows]
        return {one.place: one for one in found}

    def members(self, flag: Flag, shard: int) -> Bits:
        return flying(_flagged(flag, row) for row in self._cluster.ask(_SAID, (str(flag), shard)))


def _row(one: Flagged) -> Row:
    return str(one.flag), shard_of(one.member), one.member, one.on, one.sequence


def _flagged(flag: Flag, row: Any) -> Flagged:
    return Flagged(flag=flag, member=Member(row.member), on=row.is_on, sequence=row.sequence)
