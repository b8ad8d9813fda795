"""Count a subject's followers per tier and per suppression rule, from the current sets."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.tiers import ShardSets, Tier, TierRule, by_activity, divide
from notifier.domain.errors import Poison, Unavailable
from notifier.domain.ids import Lane, Subject, UserId
from notifier.ports.audience import MemberSets

# Read the live sets of many shards in batches, so that memory does not depend on the number of followers.

SHARDS_PER_BATCH = 32
"""Shards per batch. The fifteen sets of each shard are about 8 MB in total."""

Advance = Callable[[int], object]
"""Called with the number of shards that were just finished."""


def live_sets_by_shard(
    sets: MemberSets, subject: Subject, shards: Sequence[int], advance: Advance, restricted_to: UserId | None = None
) -> Iterator[tuple[int, ShardSets]]:
    """Yield each shard with its live sets. Raises Unavailable, also if a set cannot be read."""
    for first in range(0, len(shards), SHARDS_PER_BATCH):
        batch = shards[first : first + SHARDS_PER_BATCH]
        try:
            live_sets = sets.live(subject, batch, restricted_to)
        except Poison as poison:  # counting requests no repair; the message says how to request one
            raise Unavailable(f"{poison.detail} Run `notifier audience verify @{subject.owner} --repair`.") from poison
        yield from zip(batch, live_sets, strict=True)
        advance(len(batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceCounts:
    """Audience of a subject. Each follower is in a tier or is suppressed by a rule."""

    subject: Subject
    lane: Lane
    planned: int
    """Followers according to the follower counts, which planning reads."""
    shards: int
    """Shards with at least one follower."""
    tiers: Mapping[Tier, int]
    phones: Mapping[Tier, int]
    """Users of each tier whose phone may get alerts."""
    suppressed: Mapping[str, int]
    first_only: int
    """Users in the tiers who want only the first burst of a day."""

    @property
    def followers(self) -> int:
        """Return the number of followers according to the bitmaps."""
        return sum(self.tiers.values()) + sum(self.suppressed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceCounter:
    sets: MemberSets
    rule: TierRule = by_activity

    def count(self, subject: Subject, lane: Lane, advance: Callable[[int], object] = lambda _: None) -> AudienceCounts:
        """Count the audience. Calls `advance` with the number of counted shards.

        Raises Unavailable, also if a set cannot be read.
        """
        follower_counts = self.sets.follower_counts(subject)
        shards = [shard for shard, followers in enumerate(follower_counts.by_shard) if followers]
        tiers, phones, suppressed = Counter[Tier](), Counter[Tier](), Counter[str]()
        first_only = 0
        for _, live in live_sets_by_shard(self.sets, subject, shards, advance):
            first_only += self._add_shard(live, lane, tiers, phones, suppressed)
        return AudienceCounts(
            subject=subject,
            lane=lane,
            planned=follower_counts.total,
            shards=len(shards),
            tiers={tier: tiers[tier] for tier in Tier},
            phones={tier: phones[tier] for tier in Tier},
            suppressed=dict(suppressed),
            first_only=first_only,
        )

    def _add_shard(
        self, live: ShardSets, lane: Lane, tiers: Counter[Tier], phones: Counter[Tier], suppressed: Counter[str]
    ) -> int:
        """Add one shard to the counters. Return how many users in its tiers want only the first burst of a day."""
        division = divide(live, first_of_day=True, rows_for_dormant=lane is Lane.STANDARD, rule=self.rule)
        for tier, people in division.tiers.items():
            tiers[tier] += count(people)
            phones[tier] += count(people & live.push_enabled)
        suppressed.update(division.suppressed)
        return sum(count(people & live.first_only) for people in division.tiers.values())
