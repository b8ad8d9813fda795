"""Example of a tier rule: VIPs first, and a row for every follower."""

from collections.abc import Mapping

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets, Tier


def generous(live: ShardSets) -> Mapping[Tier, Bits]:
    return {
        Tier.P0: live[SetKind.VIP],
        Tier.P1: live[SetKind.ACTIVE_7D],
        Tier.P2: live[SetKind.FOLLOWERS],
    }
