"""The indexer: what is said of an account becomes rows of follows and wants, and from them the account's bitmaps.
What people say of everything becomes rows and bitmaps of everybody's; of who blocks whom there are rows alone.

One writer for each subject, and of everybody's for each shard: the one who reads its partition of the log. The rows
bear any order and any repetition by themselves; a bitmap is read, changed and written back, so it carries a stamp, by
which a reader that was replaced and doesn't know it yet loses.
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
"""To be made again."""


@dataclass(slots=True, kw_only=True)
class Indexer:
    directory: Directory
    bitmaps: Bitmaps
    """With the rows that they are made of."""
    partings: Partings
    epochs: Epochs
    holds: Callable[[], bool]
    """Whether what was read from the log is still this reader's to do; asked of the log."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every word is in its row and in its bitmaps when it returns. Cut off anywhere, the records come again, to
        this reader or to another, and whoever does it again does the same.

        Raises LogUnavailable where somebody else has them by now.
        """
        at = stamp(self.epochs.begin("indexer"))
        # Asked when the epoch is begun, and before anything is read that is written back. Whoever had these records
        # before has a lower one, and what he still writes is lost; whoever gets them from now on has a higher one.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        told = [unpack(GraphRecord, logged.record.value) for logged in records]
        # First, for what it hides is hidden the sooner.
        self._part([one.parting for one in told if one.parting])
        anew = _asked(told, lambda rebuild: not rebuild.imported and not rebuild.wanted)
        added, wanted = _asked(told, lambda rebuild: rebuild.imported), _asked(told, lambda rebuild: rebuild.wanted)
        self._follow([one.change for one in told if one.change], anew, added, at)
        self._want([one.word for one in told if one.word], anew, wanted, at)
        everybody = {(one.everybody, one.imported) for one in told if one.everybody is not None}
        wrong, more = ({shard for shard, imported in everybody if imported is new} for new in (False, True))
        self._arrange([one.overall for one in told if one.overall], wrong, more, at)

    def _part(self, changes: Sequence[PartingChange]) -> None:
        if not changes:
            return
        members = self.directory.number([user for change in changes for user in (change.blocker, change.blocked)])
        self.partings.write([change.word(members) for change in changes])

    def _follow(self, changes: Sequence[GraphChange], anew: Shards, added: Shards, at: Stamp) -> None:
        # Of both: whoever is followed is known from then on, and may be mentioned.
        members = self.directory.number([user for change in changes for user in (change.follower, change.followed)])
        self.bitmaps.follows.write([change.word(members[change.follower]) for change in changes])
        pairs = {(change.subject, members[change.follower]) for change in changes}
        standing = _by_subject(self.bitmaps.follows.standing(pairs))
        if subjects := standing.keys() | anew.keys() | added.keys():
            self.bitmaps.follow(
                {
                    s: Followed(standing=standing.get(s, {}), anew=anew.get(s, ()), added=added.get(s, ()))
                    for s in subjects
                },
                at,
            )

    def _want(self, words: Sequence[Word], anew: Shards, added: Shards, at: Stamp) -> None:
        self.bitmaps.wants.write(words)
        standing = _by_subject(self.bitmaps.wants.standing({(word.subject, word.member) for word in words}))
        subjects = standing.keys() | anew.keys() | added.keys()
        self.bitmaps.want(
            {
                s: PreferenceBitmaps(standing=standing.get(s, {}), anew=anew.get(s, ()), added=added.get(s, ()))
                for s in subjects
            },
            at,
        )

    def _arrange(self, words: Sequence[OverallWord], anew: Collection[int], added: Collection[int], at: Stamp) -> None:
        if not words and not anew and not added:
            return
        self.bitmaps.overalls.write(words)
        self.bitmaps.arrange(self.bitmaps.overalls.standing({word.member for word in words}), anew, added, at)


def _asked(told: Iterable[GraphRecord], why: Callable[[Rebuild], bool]) -> Shards:
    found = defaultdict[Subject, set[int]](set)
    for rebuild in (one.rebuild for one in told if one.rebuild and why(one.rebuild)):
        found[rebuild.subject].update(rebuild.shards)
    return found


def _by_subject(standing: Mapping[tuple[Subject, Member], T]) -> Mapping[Subject, Mapping[Member, T]]:
    found: defaultdict[Subject, dict[Member, T]] = defaultdict(dict)
    for (subject, member), said in standing.items():
        found[subject][member] = said
    return found
