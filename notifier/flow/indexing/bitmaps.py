"""A subject's bitmaps, and those of what people want of everything.

Read, changed by what stands in the rows, and written back; or made anew from the rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, changed, count, nobody, shard_of
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.delivery.plan import with_counts
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.fencing import Stamp
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_changes import GraphRecord, rebuilds, shard_key
from notifier.domain.users.account_preferences import OF_OVERALLS, Overall
from notifier.domain.users.subject_preferences import OF_WANTS, Want
from notifier.metrics import Metrics
from notifier.ports.audience import Follows, MemberSets, ShardBlob
from notifier.ports.coordination import Clock
from notifier.ports.event_log import EventLog, Record
from notifier.ports.users import Overalls, Wants

AT_ONCE = 64
"""Shards: five bitmaps of each are 5 MB, however many are made anew."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What is known of a subject's followers since its bitmaps were made."""

    standing: Mapping[Member, bool]
    """Whether each of these follows."""
    anew: Collection[int]
    """Shards with which something is wrong."""
    added: Collection[int]
    """Shards in which rows were added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceBitmaps:
    """The same of what its followers want of it."""

    standing: Mapping[Member, Want]
    anew: Collection[int]
    added: Collection[int]

    @property
    def shards(self) -> Collection[int]:
        return {*map(shard_of, self.standing), *self.anew, *self.added}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bitmaps:
    follows: Follows
    wants: Wants
    overalls: Overalls
    sets: MemberSets
    metrics: Metrics

    def follow(self, asked: Mapping[Subject, Followed], at: Stamp) -> None:
        """All heads, and then all bitmaps."""
        found = {subject: self._followed(subject, of) for subject, of in asked.items()}
        # The head first: a shard that it doesn't name is planned by nobody, and one that it names too early has nobody.
        # Both are written also where nothing changed: an older writer's, with what was true before, would come through.
        counts = {subject: {shard: count(bits) for shard, bits in of.items()} for subject, of in found.items()}
        self.sets.put_heads({subject: with_counts(self.sets.head(subject), of) for subject, of in counts.items()}, at)
        self._put(
            ((subject, SetKind.FOLLOWERS, s, bits) for subject, of in found.items() for s, bits in of.items()), at
        )

    def want(self, asked: Mapping[Subject, PreferenceBitmaps], at: Stamp) -> None:
        places = [(subject, of, shard) for subject, of in asked.items() for shard in sorted(of.shards)]
        for first in range(0, len(places), AT_ONCE):
            some = [
                (subject, shard, self._wanted(subject, of, shard))
                for subject, of, shard in places[first : first + AT_ONCE]
            ]
            self._put(((subject, kind, s, bits) for subject, s, of in some for kind, bits in of.items()), at)

    def arrange(
        self, standing: Mapping[Member, Overall], anew: Collection[int], added: Collection[int], at: Stamp
    ) -> None:
        """Those of everybody's that say who wants less of everything."""
        by_shard = _by_shard(standing)
        for shard in sorted({*by_shard, *anew, *added}):
            if shard in added and shard not in anew:
                found = self.overalls.sets(shard)
            else:
                found = self._arranged(shard, {} if shard in anew else by_shard[shard])
            self._put(((None, kind, shard, bits) for kind, bits in found.items()), at)

    def _arranged(self, shard: int, said: Mapping[int, Overall]) -> Mapping[SetKind, Bits]:
        before = {kind: stored(self.sets, kind, None, shard) for kind in OF_OVERALLS} if said else {}
        if not before or any(bits is None for bits in before.values()):
            rows = self.overalls.sets(shard)
            return {kind: self._made_anew(kind, None, shard, bits) for kind, bits in rows.items()}
        return {
            kind: changed(bits, {place: kind in overall.sets for place, overall in said.items()})
            for kind, bits in before.items()
            if bits is not None
        }

    def _followed(self, subject: Subject, of: Followed) -> Mapping[int, Bits]:
        found = {shard: self._following(subject, shard, some) for shard, some in _by_shard(of.standing).items()}
        found |= {shard: self.follows.followers(subject, shard) for shard in of.added}
        return found | {shard: self._followers(subject, shard) for shard in of.anew}

    def _following(self, subject: Subject, shard: int, places: Mapping[int, bool]) -> Bits:
        before = stored(self.sets, SetKind.FOLLOWERS, subject, shard)
        # Never silently empty: the rows know who follows, and have these already.
        return self._followers(subject, shard) if before is None else changed(before, places)

    def _followers(self, subject: Subject, shard: int) -> Bits:
        return self._made_anew(SetKind.FOLLOWERS, subject, shard, self.follows.followers(subject, shard))

    def _wanted(self, subject: Subject, of: PreferenceBitmaps, shard: int) -> Mapping[SetKind, Bits]:
        if shard in of.added and shard not in of.anew:
            return self.wants.sets(subject, shard)
        before = {} if shard in of.anew else {kind: stored(self.sets, kind, subject, shard) for kind in OF_WANTS}
        if not before or any(bits is None for bits in before.values()):
            return self._wants(subject, shard)
        said = {member % SHARD_MEMBERS: want for member, want in of.standing.items() if shard_of(member) == shard}
        return {
            kind: changed(bits, {place: kind in want.sets for place, want in said.items()})
            for kind, bits in before.items()
            if bits is not None
        }

    def _wants(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        rows = self.wants.sets(subject, shard)
        return {kind: self._made_anew(kind, subject, shard, bits) for kind, bits in rows.items()}

    def _made_anew(self, kind: SetKind, subject: Subject | None, shard: int, after: Bits) -> Bits:
        before = stored(self.sets, kind, subject, shard)
        self.metrics.rebuilt.inc()
        self.metrics.drifted.inc(count(after if before is None else before ^ after))
        return after

    def _put(self, found: Iterable[tuple[Subject | None, SetKind, int, Bits]], at: Stamp) -> None:
        """Each once: of two with one stamp a store keeps whichever it likes."""
        self.sets.put((ShardBlob(kind=kind, owner=owner, shard=s, bits=bits) for owner, kind, s, bits in found), at)


def stored(sets: MemberSets, kind: SetKind, subject: Subject | None, shard: int) -> Bits | None:
    """None where it can't be read."""
    with suppress(Poison):
        return sets.read(kind, subject, [shard]).get(shard, nobody())
    return None


def _by_shard(told: Mapping[Member, T]) -> Mapping[int, Mapping[int, T]]:
    found: defaultdict[int, dict[int, T]] = defaultdict(dict)
    for member, said in told.items():
        found[shard_of(member)][member % SHARD_MEMBERS] = said
    return found


# Mending: bitmaps that can't be read are made again from the rows, which whoever meets one asks for and waits for.

AGAIN_AFTER = timedelta(seconds=10)
"""A process asks again for the same shard: an indexer that is away isn't met by all tries of all slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedSets:
    port: MemberSets
    log: EventLog
    clock: Clock
    due: dict[tuple[Subject, int], datetime] = field(default_factory=dict)
    """When a shard that was asked for is asked for again."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """As the sets have them. Raises StoreUnavailable, also for those that are being made again; and Poison where a
        bitmap can't be read that no rows give back, as of who was active.
        """
        try:
            return self.port.live(subject, shards, restricted_to)
        except Poison as poison:
            asked = [self._mend(owner, shards) for owner in _owners(subject, restricted_to)]
            if not any(asked):
                raise
            # Asked again, by whoever tries, until it is done: whoever died behind the asking is waited for by nobody.
            raise StoreUnavailable(f"It is made again: {poison}") from poison

    def _mend(self, owner: Subject, shards: Iterable[int]) -> Collection[int]:
        """Asks the indexer, the only one who writes them, for those that are damaged."""
        damaged, now = [shard for shard in shards if unreadable(self.port, owner, shard)], self.clock.now()
        if due := [shard for shard in damaged if self.due.get((owner, shard), now) <= now]:
            self.log.append(list(repairs(owner.owner, due)))
            self.due.update(dict.fromkeys(((owner, shard) for shard in due), now + AGAIN_AFTER))
        return damaged


def unreadable(sets: MemberSets, owner: Subject, shard: int) -> int:
    """How many of the bitmaps that rows give back can't be read: an account's, and everybody's of that shard."""
    own = [(kind, owner) for kind in (SetKind.FOLLOWERS, *OF_WANTS)]
    all_of_them = [*own, *((kind, None) for kind in OF_OVERALLS)]
    return sum(stored(sets, kind, of, shard) is None for kind, of in all_of_them)


def repairs(user: UserId, shards: Sequence[int]) -> Iterator[Record]:
    """What asks for an account's bitmaps of these shards, and for what everybody wants of everything there."""
    for rebuild in rebuilds(user, shards):
        yield Record(stream=topics.FOLLOWS, key=user, value=pack(GraphRecord(rebuild=rebuild)))
    for shard in shards:
        yield Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(everybody=shard)))


def _owners(subject: Subject, restricted_to: UserId | None) -> Iterator[Subject]:
    yield Subject(Kind.MENTION, subject.owner)
    if restricted_to is not None:
        yield Subject(Kind.MENTION, restricted_to)
