"""A subject's bitmaps: read, changed by what stands in the rows, and written back; or made anew from the rows."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from notifier.domain.audience import SetKind
from notifier.domain.bits import SHARD_MEMBERS, Bits, changed, count, nobody, shard_of
from notifier.domain.errors import Poison
from notifier.domain.plan import with_counts
from notifier.domain.stamp import Stamp
from notifier.domain.subject import Member, Subject
from notifier.domain.want import OF_WANTS, Want
from notifier.ports.follows import Follows
from notifier.ports.sets import MemberSets, ShardBlob
from notifier.ports.wants import Wants
from notifier.telemetry import Metrics

AT_ONCE = 64
"""Shards: four bitmaps of each are 4 MB, however many are made anew."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitmaps:
    follows: Follows
    wants: Wants
    sets: MemberSets
    metrics: Metrics

    def follow(self, subject: Subject, standing: Mapping[Member, bool], anew: Collection[int], at: Stamp) -> None:
        """By whether each of these members follows; the shards that are named besides are made anew."""
        found = {shard: self._following(subject, shard, some) for shard, some in _by_shard(standing).items()}
        found |= {shard: self._followers(subject, shard) for shard in anew}
        # The head first: a shard that it doesn't name is planned by nobody, and one that it names too early has nobody.
        # Both are written also where nothing changed: an older writer's, with what was true before, would come through.
        head = with_counts(self.sets.head(subject), {shard: count(bits) for shard, bits in found.items()})
        self.sets.put_head(subject, head, at)
        self._put({(SetKind.FOLLOWERS, shard): bits for shard, bits in found.items()}, subject, at)

    def want(self, subject: Subject, standing: Mapping[Member, Want], anew: Collection[int], at: Stamp) -> None:
        """By what each of these members wants; the shards that are named besides are made anew."""
        said = _by_shard(standing)
        shards = sorted(said.keys() | set(anew))
        for first in range(0, len(shards), AT_ONCE):
            some = shards[first : first + AT_ONCE]
            found = {s: self._wants(subject, s) if s in anew else self._wanting(subject, s, said[s]) for s in some}
            self._put({(kind, shard): bits for shard, of in found.items() for kind, bits in of.items()}, subject, at)

    def _following(self, subject: Subject, shard: int, places: Mapping[int, bool]) -> Bits:
        before = stored(self.sets, SetKind.FOLLOWERS, subject, shard)
        # Never silently empty: the rows know who follows, and have these already.
        return self._followers(subject, shard) if before is None else changed(before, places)

    def _followers(self, subject: Subject, shard: int) -> Bits:
        return self._made_anew(SetKind.FOLLOWERS, subject, shard, self.follows.followers(subject, shard))

    def _wanting(self, subject: Subject, shard: int, places: Mapping[int, Want]) -> Mapping[SetKind, Bits]:
        before = {kind: stored(self.sets, kind, subject, shard) for kind in OF_WANTS}
        if any(bits is None for bits in before.values()):
            return self._wants(subject, shard)
        return {
            kind: changed(bits, {place: kind in want.sets for place, want in places.items()})
            for kind, bits in before.items()
            if bits is not None
        }

    def _wants(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self.wants.sets(subject, shard)
        return {kind: self._made_anew(kind, subject, shard, bits) for kind, bits in rows.items()}

    def _made_anew(self, kind: SetKind, subject: Subject, shard: int, after: Bits) -> Bits:
        before = stored(self.sets, kind, subject, shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after if before is None else before ^ after))
        return after

    def _put(self, found: Mapping[tuple[SetKind, int], Bits], subject: Subject, at: Stamp) -> None:
        """Each once: of two with one stamp a store keeps whichever it likes."""
        blobs = [ShardBlob(kind=kind, owner=subject, shard=shard, bits=b) for (kind, shard), b in found.items()]
        self.sets.put(blobs, at)


def stored(sets: MemberSets, kind: SetKind, subject: Subject, shard: int) -> Bits | None:
    """None where it can't be read."""
    with suppress(Poison):
        return sets.read(kind, subject, [shard]).get(shard, nobody())
    return None


def _by_shard(told: Mapping[Member, T]) -> Mapping[int, Mapping[int, T]]:
    found: defaultdict[int, dict[int, T]] = defaultdict(dict)
    for member, said in told.items():
        found[shard_of(member)][member % SHARD_MEMBERS] = said
    return found
