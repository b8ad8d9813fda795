"""Graph indexer: turns follows, blocks and preferences into rows and bitmaps.

It writes rows and bitmaps of follows and subject preferences, rows and account-wide bitmaps of account preferences, and
rows of user blocks.

One writer per subject, and per shard for account-wide bitmaps: the reader of the log partition. Rows are written
idempotently and in any order. A bitmap is read, changed and written back, so it carries a fencing token: the late
writes of a replaced reader lose.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from notifier.codec import unpack
from notifier.domain.errors import LogUnavailable
from notifier.domain.fencing import Stamp, stamp
from notifier.domain.ids import Member, Subject
from notifier.domain.upstream.graph_changes import GraphChange, GraphRecord, Rebuild
from notifier.domain.users.account_preferences import OverallWord
from notifier.domain.users.subject_preferences import Word
from notifier.domain.users.user_blocks import PartingChange
from notifier.flow.indexing.bitmaps import Bitmaps, Followed, PreferenceBitmaps
from notifier.ports.coordination import Epochs
from notifier.ports.directory import Directory
from notifier.ports.event_log import Logged
from notifier.ports.users import Partings

T = TypeVar("T")
Shards = Mapping[Subject, Collection[int]]
"""Shards to rebuild, by subject."""


@dataclass(slots=True, kw_only=True)
class Indexer:
    directory: Directory
    bitmaps: Bitmaps
    """Bitmaps, with the ports of the rows that they are made from."""
    partings: Partings
    epochs: Epochs
    holds: Callable[[], bool]
    """Asks the log whether this reader still owns the records that it has read."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Apply every change to its row and its bitmaps.

        After an interruption the records are read again, by this reader or another; processing is idempotent.

        Raises LogUnavailable if another reader owns the records by now.
        """
        token = stamp(self.epochs.begin("indexer"))
        # Check after the epoch has begun, and before the read-modify-write. An earlier owner of these records has a
        # lower fencing token, so its late writes lose; a later owner has a higher one.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        graph_records = [unpack(GraphRecord, logged.record.value) for logged in records]
        # User blocks come first, so that they take effect as early as possible.
        self._part([record.parting for record in graph_records if record.parting])
        anew = _asked(graph_records, lambda rebuild: not rebuild.imported and not rebuild.wanted)
        added, wanted = (
            _asked(graph_records, lambda rebuild: rebuild.imported),
            _asked(graph_records, lambda rebuild: rebuild.wanted),
        )
        self._follow([record.change for record in graph_records if record.change], anew, added, token)
        self._want([record.word for record in graph_records if record.word], anew, wanted, token)
        everybody = {(record.everybody, record.imported) for record in graph_records if record.everybody is not None}
        wrong, more = ({shard for shard, imported in everybody if imported is new} for new in (False, True))
        self._arrange([record.overall for record in graph_records if record.overall], wrong, more, token)

    def _part(self, changes: Sequence[PartingChange]) -> None:
        if not changes:
            return
        members = self.directory.number([user for change in changes for user in (change.blocker, change.blocked)])
        self.partings.write([change.word(members) for change in changes])

    def _follow(self, changes: Sequence[GraphChange], anew: Shards, added: Shards, at: Stamp) -> None:
        # Number both sides: followed accounts are known from then on, and may be mentioned.
        members = self.directory.number([user for change in changes for user in (change.follower, change.followed)])
        self.bitmaps.follows.write([change.word(members[change.follower]) for change in changes])
        pairs = {(change.subject, members[change.follower]) for change in changes}
        current = _by_subject(self.bitmaps.follows.standing(pairs))
        if subjects := current.keys() | anew.keys() | added.keys():
            self.bitmaps.follow(
                {
                    s: Followed(standing=current.get(s, {}), anew=anew.get(s, ()), added=added.get(s, ()))
                    for s in subjects
                },
                at,
            )

    def _want(self, words: Sequence[Word], anew: Shards, added: Shards, at: Stamp) -> None:
        self.bitmaps.wants.write(words)
        current = _by_subject(self.bitmaps.wants.standing({(change.subject, change.member) for change in words}))
        subjects = current.keys() | anew.keys() | added.keys()
        self.bitmaps.want(
            {
                s: PreferenceBitmaps(standing=current.get(s, {}), anew=anew.get(s, ()), added=added.get(s, ()))
                for s in subjects
            },
            at,
        )

    def _arrange(self, words: Sequence[OverallWord], anew: Collection[int], added: Collection[int], at: Stamp) -> None:
        if not words and not anew and not added:
            return
        self.bitmaps.overalls.write(words)
        self.bitmaps.arrange(self.bitmaps.overalls.standing({change.member for change in words}), anew, added, at)


def _asked(told: Iterable[GraphRecord], why: Callable[[Rebuild], bool]) -> Shards:
    shards_by_subject = defaultdict[Subject, set[int]](set)
    for rebuild in (record.rebuild for record in told if record.rebuild and why(record.rebuild)):
        shards_by_subject[rebuild.subject].update(rebuild.shards)
    return shards_by_subject


def _by_subject(standing: Mapping[tuple[Subject, Member], T]) -> Mapping[Subject, Mapping[Member, T]]:
    by_subject: defaultdict[Subject, dict[Member, T]] = defaultdict(dict)
    for (subject, member), value in standing.items():
        by_subject[subject][member] = value
    return by_subject
