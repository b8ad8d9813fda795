"""Compares each audience snapshot with the possible states when its worker read the sets."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from notifier.domain.audience.bitmap import members
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.audience import AudienceSnapshots, MemberSets
from tests.support.oracle import DORMANT, SHARD, SUPPRESSED, ObservedBurst, Oracle, Person, ShardTiers
from tests.support.simulator.population import SHARDS, Population

Possible = Mapping[str, Sequence[Person]]


@dataclass(slots=True)
class SnapshotObserver:
    """Observes all processes, which are named by owner."""

    population: Population
    running: Callable[[], str]
    """Returns the name of the calling thread."""
    possible_at_read: dict[str, Possible] = field(default_factory=dict)
    """Possible states of all users when the owner last read live sets."""
    possible_by_shard: dict[tuple[BurstKey, int], Possible] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note_read(self, owner: str) -> None:
        self.possible_at_read[owner] = self.population.possible_states()

    def record_snapshots(self, owner: str, burst: BurstKey, snapshots: Iterable[AudienceSnapshot]) -> None:
        """Note the possible states for each audience snapshot. The first writer wins, so its reads count."""
        for snapshot in snapshots:
            self.possible_by_shard.setdefault((burst, snapshot.shard), self.possible_at_read[owner])

    def check_follower_counts(self, subject: Subject, counts: FollowerCounts, sets: MemberSets) -> None:
        """Check that a plan made now would include every shard with a follower who is not about to unfollow."""
        if self.running().endswith("/graph_indexer"):  # it reads the counts only to change them
            return
        by_shard = dict(enumerate(counts.by_shard))
        bitmaps = sets.read(SetKind.FOLLOWERS, subject, [shard for shard in range(SHARDS) if not by_shard.get(shard)])
        leaving = {
            self.population.base[name].member for name in self.population.in_flight_changes.unfollowing(subject.owner)
        }
        for shard, bits in bitmaps.items():
            if missing := set(members(bits, shard)) - leaving:
                self.wrong.append(f"{subject} counts no follower in shard {shard}, and has {sorted(missing)}")


@dataclass(frozen=True, slots=True)
class ObservedSets:
    sets: MemberSets
    snapshot_observer: SnapshotObserver
    owner: str

    def __getattr__(self, method: str) -> Any:
        return getattr(self.sets, method)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        self.snapshot_observer.note_read(self.owner)
        return self.sets.live(subject, shards, restricted_to)

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        counts = self.sets.follower_counts(subject)
        self.snapshot_observer.check_follower_counts(subject, counts, self.sets)
        return counts


@dataclass(frozen=True, slots=True)
class ObservedAudienceSnapshots:
    snapshots: AudienceSnapshots
    snapshot_observer: SnapshotObserver
    owner: str

    def __getattr__(self, method: str) -> Any:
        return getattr(self.snapshots, method)

    def insert(self, burst: BurstKey, snapshots: Sequence[AudienceSnapshot]) -> Sequence[AudienceSnapshot]:
        self.snapshot_observer.record_snapshots(self.owner, burst, snapshots)
        return self.snapshots.insert(burst, snapshots)


def snapshot_contradictions(
    oracle: Oracle, actual: ShardTiers, versions: Collection[ObservedBurst], shard: int, possible: Possible
) -> Iterator[str]:
    """Yield contradictions between an audience snapshot and the states that each user and the burst could have had.

    Each member must be in one place that one of the states allows, and the counts of members left out must be
    possible.
    """
    in_shard = [people for people in possible.values() if people[0].member // SHARD == shard]
    places = {
        people[0].member: {oracle.place(person, version) for person in people for version in versions}
        for people in in_shard
    }
    tier_counts = Counter(member for tier_members in actual.tiers.values() for member in tier_members)
    yield from (f"{member} is in {n} tiers" for member, n in sorted(tier_counts.items()) if n > 1)
    yield from (
        f"{member} is no user of the shard" for member in sorted((set(tier_counts) | actual.push) - set(places))
    )
    tiers = {member: tier for tier, tier_members in actual.tiers.items() for member in tier_members}
    for member, allowed in places.items():
        actual_place = tiers.get(member), member in actual.push
        if actual_place not in {(tier if tier in actual.tiers else None, alerted) for tier, alerted in allowed}:
            yield f"{member} is in {actual_place}, and may be in {sorted(allowed)}"
    for name, n in ((DORMANT, actual.dormant), (SUPPRESSED, actual.suppressed)):
        least = sum({actual_place for actual_place, _ in allowed} == {name} for allowed in places.values())
        unplaced = [allowed for member, allowed in places.items() if member not in tiers]
        most = sum(any(actual_place == name for actual_place, _ in allowed) for allowed in unplaced)
        if not least <= n <= most:
            yield f"{n} are {name}, and {least} to {most} may be"
