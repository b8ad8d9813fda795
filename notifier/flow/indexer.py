"""The indexer: what the graph service says becomes rows of follows, and from them the bitmaps of followers.

One writer for each subject: the one who reads its partition of the log. The rows bear any order and any repetition by
themselves; a bitmap is read, changed and written back, so it carries a stamp, by which a reader that was replaced and
doesn't know it yet loses.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from notifier.codec import unpack
from notifier.domain.audience import SetKind
from notifier.domain.bits import SHARD_MEMBERS, Bits, changed, count, nobody, same, shard_of
from notifier.domain.errors import Poison
from notifier.domain.graph import GraphChange
from notifier.domain.plan import with_counts
from notifier.domain.stamp import Stamp, stamp
from notifier.domain.subject import Member, Subject
from notifier.ports.directory import Directory
from notifier.ports.epochs import Epochs
from notifier.ports.follows import Follows
from notifier.ports.log import Logged
from notifier.ports.sets import MemberSets, ShardBlob
from notifier.telemetry import Metrics


@dataclass(slots=True, kw_only=True)
class Indexer:
    directory: Directory
    follows: Follows
    sets: MemberSets
    epochs: Epochs
    metrics: Metrics
    term: Callable[[], int]
    """Rises whenever this reader gains a partition, before it gets a record of it."""
    begun: tuple[int, int] | None = field(default=None)
    """The term, and the epoch that this writer began in it."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every follow is in its row and in its bitmap when it returns. Cut off anywhere, the records come again, to
        this reader or to another, and whoever does it again does the same."""
        epoch = self._epoch()
        for _, some in groupby(records, lambda logged: logged.partition):
            of_partition = list(some)
            changes = [unpack(GraphChange, logged.record.value) for logged in of_partition]
            self._apply(changes, stamp(epoch, of_partition[-1].offset))

    def _epoch(self) -> int:
        # Begun before anything is read that is written back: whoever had the partition before has a lower one, and
        # whatever he writes from now on is lost, to be done again from the log.
        if self.begun is None or self.begun[0] != self.term():
            self.begun = self.term(), self.epochs.begin("indexer")
        return self.begun[1]

    def _apply(self, changes: Sequence[GraphChange], at: Stamp) -> None:
        members = self.directory.number({change.follower for change in changes})
        self.follows.write([change.word(members[change.follower]) for change in changes])
        touched: defaultdict[Subject, set[Member]] = defaultdict(set)
        for change in changes:
            touched[change.subject].add(members[change.follower])
        standing = self.follows.standing([(subject, member) for subject, some in touched.items() for member in some])
        for subject, some in touched.items():
            self._index(subject, {member: standing[subject, member] for member in some}, at)

    def _index(self, subject: Subject, follows: Mapping[Member, bool], at: Stamp) -> None:
        found = {shard: self._shard(subject, shard, of_shard) for shard, of_shard in _by_shard(follows).items()}
        # The head first: a shard that it doesn't name is planned by nobody, and one that it names too early has nobody.
        # It is compared by itself: cut off in between, and taken back before it is done again, it would stay as it is.
        before = self.sets.head(subject)
        after = with_counts(before, {shard: count(bits) for shard, (bits, _) in found.items()})
        if tuple(after.counts) != tuple(before.counts):
            self.sets.put_head(subject, after, at)
        moved = {shard: bits for shard, (bits, moved) in found.items() if moved}
        self.sets.put(
            [ShardBlob(kind=SetKind.FOLLOWERS, owner=subject, shard=s, bits=bits) for s, bits in moved.items()], at
        )

    def _shard(self, subject: Subject, shard: int, places: Mapping[int, bool]) -> tuple[Bits, bool]:
        """The shard's bitmap as it has to be, and whether it has to be written."""
        try:
            before = self.sets.read(SetKind.FOLLOWERS, subject, [shard]).get(shard, nobody())
        except Poison:
            # Never silently empty: the rows know who follows, and have these already.
            self.metrics.rebuilt.inc()
            return self.follows.followers(subject, shard), True
        after = changed(before, places)
        return after, not same(before, after)


def _by_shard(follows: Mapping[Member, bool]) -> Mapping[int, Mapping[int, bool]]:
    found: defaultdict[int, dict[int, bool]] = defaultdict(dict)
    for member, stands in follows.items():
        found[shard_of(member)][member % SHARD_MEMBERS] = stands
    return found
