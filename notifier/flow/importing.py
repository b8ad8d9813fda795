"""An import of followers: edges are read and kept in sorted runs, and then become rows and bitmaps, piece by piece.

Cut off anywhere it goes on where it was: what was read is known by the runs, what was written by the line's mark, and
whatever is done twice writes the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier import topics
from notifier.codec import pack
from notifier.domain.bits import SHARD_BLOCKS, shard_of
from notifier.domain.edges import Crowds, Keys, cut, followed_in, keyed
from notifier.domain.follow import BlockFollows, Follow
from notifier.domain.graph import GraphRecord, Rebuild
from notifier.domain.subject import Kind, Member, Subject, UserId
from notifier.ports.directory import Directory
from notifier.ports.edges import Edges
from notifier.ports.follows import Follows
from notifier.ports.log import EventLog, Record

Advance = Callable[[int], object]
IMPORTED = 0
"""The sequence of an imported follow: before every word of the graph service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Of the source, so many of them in order; those that were rejected are counted, and not here."""

    followers: Sequence[UserId]
    followed: Sequence[UserId]
    read: int
    """Up to here, from the source's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    directory: Directory
    follows: Follows
    log: EventLog
    edges: Edges
    since: datetime
    """The followers see what opened from then on."""

    def read(self, source: Iterable[Rows], advance: Advance = lambda _: None) -> None:
        """The source goes on behind what was read before. Accounts that were never heard of are made known by it."""
        for rows in source:
            members = self.directory.number({*rows.followers, *rows.followed})
            keys = keyed((members[user] for user in rows.followed), (members[user] for user in rows.followers))
            self.edges.add(keys, rows.read)
            advance(len(rows.followers))

    def write(self, advance: Advance = lambda _: None) -> None:
        """What was read is in the rows of follows, and the indexer asked for the bitmaps, when it returns."""
        for keys, mark in self.edges.line():
            self._write(keys)
            self.edges.take(mark)
            advance(len(keys))
        self.edges.forget()

    def _write(self, keys: Keys) -> None:
        names = self.directory.users([Member(member) for member in followed_in(keys)])
        touched = defaultdict[UserId, set[int]](set)
        for crowds in cut(keys):
            self._share(crowds, names)
            self._own(crowds, names)
            for followed, block, _ in crowds.shared:
                touched[names[followed]].add(block // SHARD_BLOCKS)
            for followed, follower in crowds.own:
                touched[names[followed]].add(shard_of(follower))
        # Behind the rows: whoever makes bitmaps by them finds them. Cut off before, the piece is written again.
        self.log.append([_rebuild(name, shards) for name, shards in touched.items()])

    def _share(self, crowds: Crowds, names: Mapping[Member, UserId]) -> None:
        """Rows that stand are joined: an import takes nobody away."""
        rows = [
            BlockFollows(subject=_of(names[followed]), block=block, visible_from=self.since, members=members)
            for followed, block, members in crowds.shared
        ]
        known = self.follows.blocks([row.place for row in rows])
        self.follows.write_blocks([row.joined(known.get(row.place)) for row in rows])

    def _own(self, crowds: Crowds, names: Mapping[Member, UserId]) -> None:
        self.follows.write(
            [
                Follow(subject=_of(names[of]), member=member, visible_from=self.since, sequence=IMPORTED)
                for of, member in crowds.own
            ]
        )


def _of(user: UserId) -> Subject:
    return Subject(Kind.MENTION, user)


def _rebuild(name: UserId, shards: set[int]) -> Record:
    asked = GraphRecord(rebuild=Rebuild(followed=name, shards=tuple(sorted(shards))))
    return Record(stream=topics.FOLLOWS, key=name, value=pack(asked))
