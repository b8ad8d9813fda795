"""Bitmaps of followers and preferences: updated from changed rows, or rebuilt from all rows."""

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
"""Shards per write: five bitmaps of each are 5 MB, however many are rebuilt."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Follow changes of a subject since its bitmaps were made."""

    standing: Mapping[Member, bool]
    """Whether each of these members follows now."""
    anew: Collection[int]
    """Shards to rebuild, because their bitmaps are wrong."""
    added: Collection[int]
    """Shards to rebuild, because an import added rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceBitmaps:
    """Preference changes of a subject since its bitmaps were made."""

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
        """Update all follower counts, and then all follower bitmaps."""
        bitmaps = {subject: self._followed(subject, followers) for subject, followers in asked.items()}
        # Counts first: a shard that they miss is in no plan, and a shard that they name too early is just empty.
        # Both are written even if unchanged: otherwise an older writer's outdated values could still win.
        counts = {
            subject: {shard: count(bits) for shard, bits in followers.items()} for subject, followers in bitmaps.items()
        }
        self.sets.put_heads(
            {subject: with_counts(self.sets.head(subject), followers) for subject, followers in counts.items()}, at
        )
        self._put(
            (
                (subject, SetKind.FOLLOWERS, s, bits)
                for subject, followers in bitmaps.items()
                for s, bits in followers.items()
            ),
            at,
        )

    def want(self, asked: Mapping[Subject, PreferenceBitmaps], at: Stamp) -> None:
        places = [
            (subject, preferences, shard)
            for subject, preferences in asked.items()
            for shard in sorted(preferences.shards)
        ]
        for first in range(0, len(places), AT_ONCE):
            bitmaps = [
                (subject, shard, self._wanted(subject, preferences, shard))
                for subject, preferences, shard in places[first : first + AT_ONCE]
            ]
            self._put(
                ((subject, kind, s, bits) for subject, s, preferences in bitmaps for kind, bits in preferences.items()),
                at,
            )

    def arrange(
        self, standing: Mapping[Member, Overall], anew: Collection[int], added: Collection[int], at: Stamp
    ) -> None:
        """Update the account-wide bitmaps of reduced volumes and push settings."""
        by_shard = _by_shard(standing)
        for shard in sorted({*by_shard, *anew, *added}):
            if shard in added and shard not in anew:
                bitmaps = self.overalls.sets(shard)
            else:
                bitmaps = self._arranged(shard, {} if shard in anew else by_shard[shard])
            self._put(((None, kind, shard, bits) for kind, bits in bitmaps.items()), at)

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
        bitmaps = {shard: self._following(subject, shard, places) for shard, places in _by_shard(of.standing).items()}
        bitmaps |= {shard: self.follows.followers(subject, shard) for shard in of.added}
        return bitmaps | {shard: self._followers(subject, shard) for shard in of.anew}

    def _following(self, subject: Subject, shard: int, places: Mapping[int, bool]) -> Bits:
        before = stored(self.sets, SetKind.FOLLOWERS, subject, shard)
        # Never start from an empty bitmap: the rows have all followers, including these.
        return self._followers(subject, shard) if before is None else changed(before, places)

    def _followers(self, subject: Subject, shard: int) -> Bits:
        return self._made_anew(SetKind.FOLLOWERS, subject, shard, self.follows.followers(subject, shard))

    def _wanted(self, subject: Subject, of: PreferenceBitmaps, shard: int) -> Mapping[SetKind, Bits]:
        if shard in of.added and shard not in of.anew:
            return self.wants.sets(subject, shard)
        before = {} if shard in of.anew else {kind: stored(self.sets, kind, subject, shard) for kind in OF_WANTS}
        if not before or any(bits is None for bits in before.values()):
            return self._wants(subject, shard)
        preferences = {
            member % SHARD_MEMBERS: want for member, want in of.standing.items() if shard_of(member) == shard
        }
        return {
            kind: changed(bits, {place: kind in want.sets for place, want in preferences.items()})
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
        """Write each bitmap once: with equal fencing tokens a store keeps either write."""
        self.sets.put((ShardBlob(kind=kind, owner=owner, shard=s, bits=bits) for owner, kind, s, bits in found), at)


def stored(sets: MemberSets, kind: SetKind, subject: Subject | None, shard: int) -> Bits | None:
    """Return the stored bitmap; None if it is unreadable."""
    with suppress(Poison):
        return sets.read(kind, subject, [shard]).get(shard, nobody())
    return None


def _by_shard(told: Mapping[Member, T]) -> Mapping[int, Mapping[int, T]]:
    by_shard: defaultdict[int, dict[int, T]] = defaultdict(dict)
    for member, value in told.items():
        by_shard[shard_of(member)][member % SHARD_MEMBERS] = value
    return by_shard


# Repair: unreadable bitmaps are rebuilt from the rows. The process that needs one requests it and waits.

AGAIN_AFTER = timedelta(seconds=10)
"""Interval between requests of a process for the same shard: retries of slices must not flood a stopped indexer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedSets:
    port: MemberSets
    log: EventLog
    clock: Clock
    due: dict[tuple[Subject, int], datetime] = field(default_factory=dict)
    """Earliest time of the next request for a requested shard."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """Return the live sets. Raises StoreUnavailable, also while bitmaps are being rebuilt.

        Raises Poison for an unreadable bitmap that cannot be rebuilt from rows, for example one of activity.
        """
        try:
            return self.port.live(subject, shards, restricted_to)
        except Poison as poison:
            asked = [self._mend(owner, shards) for owner in _owners(subject, restricted_to)]
            if not any(asked):
                raise
            # Every retry requests it again until it is done, because the requesting process may have crashed.
            raise StoreUnavailable(f"It is made again: {poison}") from poison

    def _mend(self, owner: Subject, shards: Iterable[int]) -> Collection[int]:
        """Request a rebuild of damaged shards from the indexer, the only writer of these bitmaps; return them."""
        damaged, now = [shard for shard in shards if unreadable(self.port, owner, shard)], self.clock.now()
        if due := [shard for shard in damaged if self.due.get((owner, shard), now) <= now]:
            self.log.append(list(repairs(owner.owner, due)))
            self.due.update(dict.fromkeys(((owner, shard) for shard in due), now + AGAIN_AFTER))
        return damaged


def unreadable(sets: MemberSets, owner: Subject, shard: int) -> int:
    """Count the unreadable bitmaps that rows can restore: the account's own, and the account-wide ones of the shard."""
    own = [(kind, owner) for kind in (SetKind.FOLLOWERS, *OF_WANTS)]
    all_of_them = [*own, *((kind, None) for kind in OF_OVERALLS)]
    return sum(stored(sets, kind, set_owner, shard) is None for kind, set_owner in all_of_them)


def repairs(user: UserId, shards: Sequence[int]) -> Iterator[Record]:
    """Yield the requests to rebuild the account's bitmaps and the account-wide bitmaps of these shards."""
    for rebuild in rebuilds(user, shards):
        yield Record(stream=topics.FOLLOWS, key=user, value=pack(GraphRecord(rebuild=rebuild)))
    for shard in shards:
        yield Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(everybody=shard)))


def _owners(subject: Subject, restricted_to: UserId | None) -> Iterator[Subject]:
    yield Subject(Kind.MENTION, subject.owner)
    if restricted_to is not None:
        yield Subject(Kind.MENTION, restricted_to)
