"""The seal: what a burst's audience was in one shard, decided once by the first who touched it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import Bits, count, nobody
from notifier.domain.audience.tiers import TIERS, Audience, SetKind, ShardSets, Tier, TierRule, by_activity, divide
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Kind, Lane

KEPT_FOR = timedelta(days=7)
"""Once a seal has expired, nothing of its burst is delivered again."""

PUSHED = (Tier.P0, Tier.P1)
"""The tiers whose people are alerted though they never asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Every slice, retry, push, explanation and check reads this, never the live sets again."""

    shard: int
    opened_at: datetime
    """The burst's opening time as the first to seal the shard read it. All rows of the shard have it in their key, on
    every retry: a burst that is published slowly may get a later opening time while its slices are under way."""
    tiers: Mapping[Tier, Bits]
    """P0, P1 and P2: disjoint."""
    push: Bits
    """Who is to be alerted, the dormant among them: whoever had a device, in the tiers that get alerts, or asked."""
    dormant: int
    suppressed: Mapping[str, int]

    def reached(self, tier: Tier) -> int:
        return count(self.tiers[tier])

    def part(self, tier: Tier) -> "TierSnapshot":
        return TierSnapshot(
            shard=self.shard, opened_at=self.opened_at, members=self.tiers[tier], phones=self.phones(tier)
        )

    def alerted(self, tier: Tier) -> Bits:
        """Who of the tier is to be alerted."""
        p0, p1, p2 = (self.tiers[each] for each in TIERS)
        found: Bits = self.push & (~(p0 | p1 | p2) if tier is Tier.DORMANT else self.tiers[tier])
        return found

    def phones(self, tier: Tier) -> int:
        """How many are to be alerted once the tier's rows stand: after P2's the dormant, too."""
        if tier is Tier.P2:
            return count(self.push & ~(self.tiers[Tier.P0] | self.tiers[Tier.P1]))
        return count(self.alerted(tier))

    def tally(self) -> "SnapshotCounts":
        return SnapshotCounts(
            shard=self.shard,
            reached={tier: self.reached(tier) for tier in TIERS},
            dormant=self.dormant,
            suppressed=sum(self.suppressed.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSnapshot:
    """What a seal says of one tier: all that it takes to write the rows."""

    shard: int
    opened_at: datetime
    members: Bits
    phones: int
    """How many are alerted once its rows stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCounts:
    """A seal's numbers without its bitmaps: what the books need, in constant memory a shard."""

    shard: int
    reached: Mapping[Tier, int]
    dormant: int
    suppressed: int

    @property
    def expected(self) -> int:
        return sum(self.reached.values()) + self.suppressed


def seal(
    burst: Burst, shard: int, live: ShardSets, rule: TierRule = by_activity, pushed: Collection[Tier] = PUSHED
) -> Seal:
    """`pushed` are the tiers whose people are alerted unless they don't want it; of the others it is who asked."""
    audience = _audience(burst, live, rule)
    return Seal(
        shard=shard,
        opened_at=burst.opened_at,
        tiers={tier: audience.tiers[tier] for tier in TIERS},
        push=nobody() if burst.verdict is not Verdict.ALL else _alerted(audience, live, pushed),
        dormant=count(audience.tiers[Tier.DORMANT]),
        suppressed=audience.suppressed,
    )


def _alerted(audience: Audience, live: ShardSets, pushed: Collection[Tier]) -> Bits:
    phones, asked, found = live.phones, live.asked, nobody()
    for tier, people in audience.tiers.items():
        found = found | people & (phones if tier in pushed else asked)
    return found


def _audience(burst: Burst, live: ShardSets, rule: TierRule) -> Audience:
    """A personal subject has an audience of one, who comes first unless the author's tweets are not for her."""
    if burst.key.subject.kind is Kind.SELF:
        none = nobody()
        own: Bits = live[SetKind.FOLLOWERS]
        if burst.restricted_to is not None:
            # Fails closed: where the author's followers weren't read, nobody is known to be one.
            own = none if live.mentioner_followers is None else own & live.mentioner_followers
        return Audience(tiers={Tier.P0: own, Tier.P1: none, Tier.P2: none, Tier.DORMANT: none}, suppressed={})
    standard = burst.lane is Lane.STANDARD
    return divide(live, first_of_day=burst.first_of_day, rows_for_dormant=standard, rule=rule)
