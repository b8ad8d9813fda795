"""Follower import: turns follow edges into rows and bitmaps, ordered by followed account."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.follow_import import Crowds, Ids, Keys, Located, cut, keyed, paired
from notifier.domain.audience.follows import BlockFollows, Follow
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_changes import GraphRecord, Rebuild, rebuilds
from notifier.domain.users.import_rows import IMPORTED
from notifier.ports.audience import Follows
from notifier.ports.directory import Directory
from notifier.ports.event_log import EventLog, Record
from notifier.ports.imports import NumberedFollows, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    directory: Directory
    follows: Follows
    log: EventLog
    since: datetime
    """Imported followers see bursts that opened at or after this time."""
    ranges: list[IdRange] = field(default_factory=list)
    """ID ranges of integer IDs that were looked up so far."""

    def read(self, rows: Rows | NumberedFollows) -> Keys:
        """Return the edges as sorted keys. Unknown accounts are added to the directory."""
        if isinstance(rows, NumberedFollows):
            return paired(self._located(rows.followed), self._located(rows.followers))
        members = self.directory.number(dict.fromkeys((*rows.followers, *rows.followed)))
        return keyed((members[user] for user in rows.followed), (members[user] for user in rows.followers))

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Yield steps that write the rows of follows and then request their bitmaps from the indexer."""
        return (partial(self._write, crowds) for crowds in cut(keys))

    def _located(self, ids: Ids) -> Keys:
        located = Located(ids)
        for known in self.ranges:
            located.within(known)
        while (missing := located.missing()) and (more := self._range(missing[0]) or self._range(missing[-1])):
            self.ranges.append(more)
            located.within(more)
        if missing:
            names = {id: UserId(str(id)) for id in missing}
            members = self.directory.number(names.values())
            located.named({id: members[name] for id, name in names.items()})
        return located.members

    def _range(self, id: int) -> IdRange | None:
        return self.directory.range_of(UserId(str(id)))

    def _write(self, crowds: Crowds) -> None:
        shards = crowds.shards()
        names = self.directory.users(shards)
        self._share(crowds, names)
        self._own((names[account], member) for account, member in crowds.own)
        # After the rows, so that the indexer finds them. A crash before this line repeats the whole chunk.
        self.log.append(
            [
                _record(rebuild)
                for followed, touched in shards.items()
                for rebuild in rebuilds(names[followed], touched, imported=True)
            ]
        )

    def _share(self, crowds: Crowds, names: Mapping[Member, UserId]) -> None:
        """Store block rows. The first import of a block sets its start time; later followers get rows of their own."""
        rows = [
            BlockFollows(subject=_of(names[followed]), block=block, visible_from=self.since, members=members)
            for followed, block, members in crowds.shared
        ]
        stood = self.follows.settle_blocks(rows)
        late = [row for row in rows if row.place in stood]
        self._own((row.subject.owner, member) for row in late for member in row.beyond(stood[row.place]))

    def _own(self, pairs: Iterable[tuple[UserId, Member]]) -> None:
        self.follows.write(
            [
                Follow(subject=_of(account), member=member, visible_from=self.since, sequence=IMPORTED)
                for account, member in pairs
            ]
        )


def _of(user: UserId) -> Subject:
    return Subject(Kind.MENTION, user)


def _record(rebuild: Rebuild) -> Record:
    return Record(stream=topics.FOLLOWS, key=rebuild.followed, value=pack(GraphRecord(rebuild=rebuild)))
