"""Watching: what each worker read as it sealed, held against what everybody was at that very moment."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from notifier.domain.audience.bitmap import members
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.audience import MemberSets
from notifier.ports.inbox import Seals
from tests.support.oracle import DORMANT, SHARD, SUPPRESSED, Division, Oracle, Person, Seen
from tests.support.simulator.cast import SHARDS, Scene

Possible = Mapping[str, Sequence[Person]]


@dataclass(slots=True)
class Watching:
    """Of all processes, by owner."""

    scene: Scene
    running: Callable[[], str]
    """The thread that calls."""
    read: dict[str, Possible] = field(default_factory=dict)
    """What everybody could be when the owner last read live sets."""
    sealed: dict[tuple[BurstKey, int], Possible] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def reads(self, owner: str) -> None:
        self.read[owner] = self.scene.possible()

    def seals(self, owner: str, burst: BurstKey, seals: Iterable[Seal]) -> None:
        """Who is the first decides, and by what it has read."""
        for seal in seals:
            self.sealed.setdefault((burst, seal.shard), self.read[owner])

    def plans(self, subject: Subject, head: SetHead, sets: MemberSets) -> None:
        """A plan that was made now would have every shard in which somebody stands who isn't about to leave."""
        if self.running().endswith("/indexer"):  # it reads a head to change it
            return
        counts = dict(enumerate(head.counts))
        bitmaps = sets.read(SetKind.FOLLOWERS, subject, [shard for shard in range(SHARDS) if not counts.get(shard)])
        leaving = {self.scene.base[name].member for name in self.scene.rumours.leaving(subject.owner)}
        for shard, bits in bitmaps.items():
            if lost := set(members(bits, shard)) - leaving:
                self.wrong.append(f"the head of {subject} doesn't name shard {shard}, where {sorted(lost)} stand")


@dataclass(frozen=True, slots=True)
class OwnSets:
    sets: MemberSets
    watching: Watching
    owner: str

    def __getattr__(self, method: str) -> Any:
        return getattr(self.sets, method)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        self.watching.reads(self.owner)
        return self.sets.live(subject, shards, restricted_to)

    def head(self, subject: Subject) -> SetHead:
        head = self.sets.head(subject)
        self.watching.plans(subject, head, self.sets)
        return head


@dataclass(frozen=True, slots=True)
class OwnSeals:
    seals: Seals
    watching: Watching
    owner: str

    def __getattr__(self, method: str) -> Any:
        return getattr(self.seals, method)

    def insert(self, burst: BurstKey, seals: Sequence[Seal]) -> Sequence[Seal]:
        self.watching.seals(self.owner, burst, seals)
        return self.seals.insert(burst, seals)


def misplaced(
    oracle: Oracle, found: Division, burst: Collection[Seen], shard: int, possible: Possible
) -> Iterator[str]:
    """What is wrong with a seal that was made when each person, and the burst, was one of these: everybody is in one
    place, which is one of the person's own, and so many are left out as that allows."""
    here = [people for people in possible.values() if people[0].member // SHARD == shard]
    places = {people[0].member: {oracle.place(person, one) for person in people for one in burst} for people in here}
    times = Counter(member for of in found.tiers.values() for member in of)
    yield from (f"{member} is in {n} tiers" for member, n in sorted(times.items()) if n > 1)
    yield from (f"{member} is nobody" for member in sorted((set(times) | found.push) - set(places)))
    sealed = {member: tier for tier, of in found.tiers.items() for member in of}
    for member, allowed in places.items():
        stands = sealed.get(member), member in found.push
        if stands not in {(tier if tier in found.tiers else None, alerted) for tier, alerted in allowed}:
            yield f"{member} is in {stands}, and may be in {sorted(allowed)}"
    for name, n in ((DORMANT, found.dormant), (SUPPRESSED, found.suppressed)):
        least = sum({place for place, _ in allowed} == {name} for allowed in places.values())
        others = [allowed for member, allowed in places.items() if member not in sealed]
        most = sum(any(place == name for place, _ in allowed) for allowed in others)
        if not least <= n <= most:
            yield f"{n} are {name}, and {least} to {most} may be"
