"""Audience snapshot: a burst's audience in one shard, fixed once by the first writer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import Bits, count, no_members
from notifier.domain.audience.tiers_and_member_sets import (
    TIERS,
    Audience,
    SetKind,
    ShardSets,
    Tier,
    TierRule,
    by_activity,
    divide,
)
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Kind, Lane

SNAPSHOT_KEPT_FOR = timedelta(days=7)
"""Lifetime of an audience snapshot. All slices of its burst expire earlier, after a day at most."""

DEFAULT_PUSHED_TIERS = (Tier.P0, Tier.P1)
"""Tiers whose members get alerts without having asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceSnapshot:
    """Audience snapshot of one shard. All slices of the burst, retries included, read it instead of the live sets."""

    shard: int
    opened_at: datetime
    """Opening time of the burst as read when the snapshot was taken. It is part of the key of every row of the shard.

    A burst that is published slowly may get a later opening time while its slices run. The rows of a retry must have
    the same keys as before, so they use this time.
    """
    tiers: Mapping[Tier, Bits]
    """Members of P0, P1 and P2, disjoint."""
    to_alert: Bits
    """Members to alert, dormant ones included.

    They have a device and have not switched alerts off. They are in a pushed tier, or asked for alerts.
    """
    dormant_count: int
    suppressed_counts: Mapping[str, int]
    """Number of suppressed followers, by the set that suppressed them."""

    def reached_count(self, tier: Tier) -> int:
        return count(self.tiers[tier])

    def for_tier(self, tier: Tier) -> "TierSnapshot":
        return TierSnapshot(
            shard=self.shard, opened_at=self.opened_at, members=self.tiers[tier], alert_count=self.alert_count(tier)
        )

    def members_to_alert(self, tier: Tier) -> Bits:
        p0, p1, p2 = (self.tiers[row_tier] for row_tier in TIERS)
        bits: Bits = self.to_alert & (~(p0 | p1 | p2) if tier is Tier.DORMANT else self.tiers[tier])
        return bits

    def alert_count(self, tier: Tier) -> int:
        """Return the number of members to alert after the rows of the tier. P2 includes the dormant members."""
        if tier is Tier.P2:
            return count(self.to_alert & ~(self.tiers[Tier.P0] | self.tiers[Tier.P1]))
        return count(self.members_to_alert(tier))

    def counts(self) -> "SnapshotCounts":
        return SnapshotCounts(
            shard=self.shard,
            reached={tier: self.reached_count(tier) for tier in TIERS},
            dormant=self.dormant_count,
            suppressed=sum(self.suppressed_counts.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSnapshot:
    shard: int
    opened_at: datetime
    members: Bits
    alert_count: int
    """Number of members to alert after the rows are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCounts:
    """Counts of an audience snapshot without its bitmaps: constant memory per shard, for delivery accounting."""

    shard: int
    reached: Mapping[Tier, int]
    dormant: int
    suppressed: int

    @property
    def expected(self) -> int:
        """Return the number of expected recipients: members of the tiers with rows, and suppressed followers."""
        return sum(self.reached.values()) + self.suppressed


def take_snapshot(
    burst: Burst,
    shard: int,
    live: ShardSets,
    rule: TierRule = by_activity,
    pushed_tiers: Collection[Tier] = DEFAULT_PUSHED_TIERS,
) -> AudienceSnapshot:
    """Compute the audience snapshot of one shard. Only a burst with the verdict ALL has members to alert."""
    audience = _audience(burst, live, rule)
    return AudienceSnapshot(
        shard=shard,
        opened_at=burst.opened_at,
        tiers={tier: audience.tiers[tier] for tier in TIERS},
        to_alert=no_members() if burst.verdict is not Verdict.ALL else _members_to_alert(audience, live, pushed_tiers),
        dormant_count=count(audience.tiers[Tier.DORMANT]),
        suppressed_counts=audience.suppressed_counts,
    )


def _members_to_alert(audience: Audience, live: ShardSets, pushed_tiers: Collection[Tier]) -> Bits:
    push_enabled, push_requested, to_alert = live.push_enabled, live.push_requested, no_members()
    for tier, members in audience.tiers.items():
        to_alert = to_alert | members & (push_enabled if tier in pushed_tiers else push_requested)
    return to_alert


def _audience(burst: Burst, live: ShardSets, rule: TierRule) -> Audience:
    """Divide the shard into tiers.

    The audience of a SELF subject is its owner, in P0. It is empty if the burst is restricted and the owner does not
    follow its author.
    """
    if burst.key.subject.kind is Kind.SELF:
        none = no_members()
        owner: Bits = live[SetKind.FOLLOWERS]
        if burst.restricted_to is not None:
            # Fail closed: without the author's followers the owner is not known to follow the author.
            owner = none if live.mentioner_followers is None else owner & live.mentioner_followers
        return Audience(tiers={Tier.P0: owner, Tier.P1: none, Tier.P2: none, Tier.DORMANT: none}, suppressed_counts={})
    is_standard = burst.lane is Lane.STANDARD
    return divide(live, first_of_day=burst.first_of_day, rows_for_dormant=is_standard, rule=rule)
