"""Audience count: a subject's followers by tier, and its suppressed followers."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.tiers_and_member_sets import ShardSets, Tier, TierRule, by_activity, divide
from notifier.domain.errors import Poison, Unavailable
from notifier.domain.ids import Lane, Subject, UserId
from notifier.ports.audience import MemberSets

# Live sets are read in batches of shards, so that the memory does not grow with the number of followers.

SHARDS_PER_BATCH = 32
"""Shards per batch. A shard has up to 16 sets of 16 KB, so a batch takes up to 8 MB."""

Advance = Callable[[int], object]
"""Callback for progress, called with the number of shards finished since the last call."""


def live_sets_by_shard(
    sets: MemberSets, subject: Subject, shards: Sequence[int], advance: Advance, restricted_to: UserId | None = None
) -> Iterator[tuple[int, ShardSets]]:
    """Yield each shard with its live sets. Raises Unavailable, also for an unreadable bitmap."""
    for first in range(0, len(shards), SHARDS_PER_BATCH):
        batch = shards[first : first + SHARDS_PER_BATCH]
        try:
            live_sets = sets.live(subject, batch, restricted_to)
        except Poison as poison:  # a count must not change anything, so the operator requests the repair
            raise Unavailable(f"{poison.detail} Run `notifier audience verify @{subject.owner} --repair`.") from poison
        yield from zip(batch, live_sets, strict=True)
        advance(len(batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceCounts:
    """Audience of a subject. Each follower is in a tier, or is suppressed."""

    subject: Subject
    lane: Lane
    planned_followers: int
    """Followers according to the follower counts, from which bursts are planned."""
    shard_count: int
    """Number of shards with at least one follower."""
    tiers: Mapping[Tier, int]
    push_enabled: Mapping[Tier, int]
    """Number of users who have a device and have not switched alerts off, by tier."""
    suppressed: Mapping[str, int]
    """Number of suppressed followers, by the set that suppresses them."""
    first_only_count: int
    """Number of users in the tiers who want only the first burst of a day."""

    @property
    def followers(self) -> int:
        """Return the number of followers according to the bitmaps."""
        return sum(self.tiers.values()) + sum(self.suppressed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceCounter:
    sets: MemberSets
    rule: TierRule = by_activity

    def count(self, subject: Subject, lane: Lane, advance: Advance = lambda _: None) -> AudienceCounts:
        """Count the audience. An unreadable bitmap raises Unavailable."""
        follower_counts = self.sets.follower_counts(subject)
        shards = [shard for shard, followers in enumerate(follower_counts.by_shard) if followers]
        tiers, push_enabled, suppressed = Counter[Tier](), Counter[Tier](), Counter[str]()
        first_only_count = 0
        for _, live_sets in live_sets_by_shard(self.sets, subject, shards, advance):
            first_only_count += self._add_shard(live_sets, lane, tiers, push_enabled, suppressed)
        return AudienceCounts(
            subject=subject,
            lane=lane,
            planned_followers=follower_counts.total,
            shard_count=len(shards),
            tiers={tier: tiers[tier] for tier in Tier},
            push_enabled={tier: push_enabled[tier] for tier in Tier},
            suppressed=dict(suppressed),
            first_only_count=first_only_count,
        )

    def _add_shard(
        self,
        live_sets: ShardSets,
        lane: Lane,
        tiers: Counter[Tier],
        push_enabled: Counter[Tier],
        suppressed: Counter[str],
    ) -> int:
        """Add one shard to the counters. Return how many users in its tiers want only the first burst of a day."""
        division = divide(live_sets, first_of_day=True, rows_for_dormant=lane is Lane.STANDARD, rule=self.rule)
        for tier, members in division.tiers.items():
            tiers[tier] += count(members)
            push_enabled[tier] += count(members & live_sets.push_enabled)
        suppressed.update(division.suppressed_counts)
        return sum(count(members & live_sets.first_only) for members in division.tiers.values())
