"""The indexer: what the graph service says becomes rows of follows, and from them the bitmaps of followers.

One writer for each subject: the one who reads its partition of the log. The rows bear any order and any repetition by
themselves; a bitmap is read, changed and written back, so it carries a stamp, by which a reader that was replaced and
doesn't know it yet loses.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from notifier.codec import unpack
from notifier.domain.audience import SetKind
from notifier.domain.bits import SHARD_MEMBERS, Bits, changed, count, nobody, shard_of
from notifier.domain.errors import LogUnavailable, Poison
from notifier.domain.graph import GraphChange, GraphRecord, Rebuild
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
    holds: Callable[[], bool]
    """Whether what was read from the log is still this reader's to do; asked of the log."""

    def __call__(self, records: Sequence[Logged]) -> None:
        """Every follow is in its row and in its bitmap when it returns. Cut off anywhere, the records come again, to
        this reader or to another, and whoever does it again does the same.

        Raises LogUnavailable where somebody else has them by now.
        """
        at = stamp(self.epochs.begin("indexer"))
        # Asked when the epoch is begun, and before anything is read that is written back. Whoever had these records
        # before has a lower one, and what he still writes is lost; whoever gets them from now on has a higher one.
        if not self.holds():
            raise LogUnavailable("Another reader has the partition.")
        told = [unpack(GraphRecord, logged.record.value) for logged in records]
        self._apply([one.change for one in told if one.change], [one.rebuild for one in told if one.rebuild], at)

    def _apply(self, changes: Sequence[GraphChange], rebuilds: Sequence[Rebuild], at: Stamp) -> None:
        members = self.directory.number({change.follower for change in changes})
        self.follows.write([change.word(members[change.follower]) for change in changes])
        touched, anew = defaultdict[Subject, set[Member]](set), defaultdict[Subject, set[int]](set)
        for change in changes:
            touched[change.subject].add(members[change.follower])
        for rebuild in rebuilds:
            anew[rebuild.subject].update(rebuild.shards)
        standing = self.follows.standing([(subject, member) for subject, some in touched.items() for member in some])
        for subject in touched.keys() | anew.keys():
            places = _by_shard({member: standing[subject, member] for member in touched[subject]})
            found = {shard: self._changed(subject, shard, of_shard) for shard, of_shard in places.items()}
            self._put(subject, found | {shard: self._made_anew(subject, shard) for shard in anew[subject]}, at)

    def _put(self, subject: Subject, found: Mapping[int, Bits], at: Stamp) -> None:
        # The head first: a shard that it doesn't name is planned by nobody, and one that it names too early has nobody.
        # Both are written also where nothing changed: an older writer's, with what was true before, would come through.
        head = with_counts(self.sets.head(subject), {shard: count(bits) for shard, bits in found.items()})
        self.sets.put_head(subject, head, at)
        self.sets.put(
            [ShardBlob(kind=SetKind.FOLLOWERS, owner=subject, shard=s, bits=bits) for s, bits in found.items()], at
        )

    def _changed(self, subject: Subject, shard: int, places: Mapping[int, bool]) -> Bits:
        before = self._stored(subject, shard)
        # Never silently empty: the rows know who follows, and have these already.
        return self._made_anew(subject, shard) if before is None else changed(before, places)

    def _made_anew(self, subject: Subject, shard: int) -> Bits:
        before, after = self._stored(subject, shard), self.follows.followers(subject, shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after if before is None else before ^ after))
        return after

    def _stored(self, subject: Subject, shard: int) -> Bits | None:
        """None where it can't be read."""
        with suppress(Poison):
            return self.sets.read(SetKind.FOLLOWERS, subject, [shard]).get(shard, nobody())
        return None


def _by_shard(follows: Mapping[Member, bool]) -> Mapping[int, Mapping[int, bool]]:
    found: defaultdict[int, dict[int, bool]] = defaultdict(dict)
    for member, stands in follows.items():
        found[shard_of(member)][member % SHARD_MEMBERS] = stands
    return found
