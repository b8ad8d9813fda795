"""What operators said of mentioners: a cell a word, of which the last stands; written to the audit before it."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from notifier.adapters.cassandra.audit import record
from notifier.adapters.cassandra.parts import PARTS, part_of_user
from notifier.adapters.cassandra.session import Cluster
from notifier.codec import pack, unpack
from notifier.codec.moments import to_ms
from notifier.domain.bursts.moderation import ReachWord, told
from notifier.domain.ids import UserId

# The moment is the write timestamp: what was said last stands, in whatever order the words come.
_SAY = "INSERT INTO reaches (part, user, word) VALUES (?, ?, ?) USING TIMESTAMP ?"
_STANDING = "SELECT word FROM reaches WHERE part = ? AND user IN ?"
_LISTED = "SELECT word FROM reaches WHERE part = ?"

_MICROSECONDS = 1_000
"""In a millisecond: what Cassandra counts write timestamps in."""


class CassandraReaches:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def say(self, word: ReachWord) -> None:
        record(self._cluster, at=word.at, who=word.who, what="reach.say", detail=told(word))
        # A crash here leaves a word in the audit that doesn't stand; the other way round nobody would know whose it is.
        row = part_of_user(word.user), word.user, pack(word), to_ms(word.at) * _MICROSECONDS
        self._cluster.ask(_SAY, row)

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        asked: defaultdict[int, list[UserId]] = defaultdict(list)
        for user in users:
            if user:  # the empty name is nobody's
                asked[part_of_user(user)].append(user)
        return {word.user: word for word in self._words(_STANDING, list(asked.items()))}

    def listed(self) -> Sequence[ReachWord]:
        return sorted(self._words(_LISTED, [(part,) for part in range(PARTS)]), key=lambda word: word.user)

    def _words(self, statement: str, each: Sequence[Sequence[object]]) -> Sequence[ReachWord]:
        return [unpack(ReachWord, row.word) for rows in self._cluster.ask_each(statement, each) for row in rows]
