"""The census of a subject: how many people each tier has, and whom a rule leaves out, by the sets as they stand now."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.tiers import ShardSets, Tier, TierRule, by_activity, divide
from notifier.domain.errors import Poison, Unavailable
from notifier.domain.ids import Lane, Subject, UserId
from notifier.ports.audience import MemberSets

# The live sets of many shards, a few at a time, so that memory doesn't depend on followers.

AT_ONCE = 32
"""Shards: fifteen sets of each are some 8 MB."""

Advance = Callable[[int], object]
"""Told of shards that are done."""


def lives(
    sets: MemberSets, subject: Subject, shards: Sequence[int], advance: Advance, restricted_to: UserId | None = None
) -> Iterator[tuple[int, ShardSets]]:
    """Raises Unavailable, also where a set can't be read."""
    for first in range(0, len(shards), AT_ONCE):
        some = shards[first : first + AT_ONCE]
        try:
            found = sets.live(subject, some, restricted_to)
        except Poison as poison:  # who only looks asks for nothing, and is told how one does
            raise Unavailable(f"{poison.detail} Try `notifier audience verify @{subject.owner} --repair`.") from poison
        yield from zip(some, found, strict=True)
        advance(len(some))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Everybody who follows is in a tier or is left out by a rule."""

    subject: Subject
    lane: Lane
    head: int
    """Followers by the head, which is what planning reads."""
    shards: int
    """Those in which somebody follows."""
    tiers: Mapping[Tier, int]
    phones: Mapping[Tier, int]
    """Of the tier's people those whose phone may ring."""
    suppressed: Mapping[str, int]
    first: int
    """Of the tiers' people those who want the first burst of a day alone."""

    @property
    def followers(self) -> int:
        """By the bitmaps."""
        return sum(self.tiers.values()) + sum(self.suppressed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    sets: MemberSets
    rule: TierRule = by_activity

    def count(self, subject: Subject, lane: Lane, advance: Callable[[int], object] = lambda _: None) -> Counted:
        """Tells `advance` of shards that are counted. Raises Unavailable, also where a set can't be read."""
        head = self.sets.head(subject)
        shards = [shard for shard, n in enumerate(head.counts) if n]
        tiers, phones, suppressed = Counter[Tier](), Counter[Tier](), Counter[str]()
        first = 0
        for _, live in lives(self.sets, subject, shards, advance):
            first += self._count(live, lane, tiers, phones, suppressed)
        return Counted(
            subject=subject,
            lane=lane,
            head=head.total,
            shards=len(shards),
            tiers={tier: tiers[tier] for tier in Tier},
            phones={tier: phones[tier] for tier in Tier},
            suppressed=dict(suppressed),
            first=first,
        )

    def _count(
        self, live: ShardSets, lane: Lane, tiers: Counter[Tier], phones: Counter[Tier], suppressed: Counter[str]
    ) -> int:
        """Adds one shard; returns how many of its tiers want the first burst of a day alone."""
        found = divide(live, first_of_day=True, rows_for_dormant=lane is Lane.STANDARD, rule=self.rule)
        for tier, people in found.tiers.items():
            tiers[tier] += count(people)
            phones[tier] += count(people & live.phones)
        suppressed.update(found.suppressed)
        return sum(count(people & live.first_only) for people in found.tiers.values())
