"""Tiers: which members each tier holds, and which members a rule leaves out."""

from collections.abc import Iterable

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import Audience, SetKind, ShardSets, Tier, divide


def live(
    followers: Iterable[int] = range(10), *, author: Iterable[int] | None = None, **sets: Iterable[int]
) -> ShardSets:
    given_sets = {SetKind(name): from_offsets(places) for name, places in sets.items()}
    return ShardSets(
        sets={SetKind.FOLLOWERS: from_offsets(followers), **given_sets},
        mentioner_followers=None if author is None else from_offsets(author),
    )


def people(audience: Audience) -> dict[Tier, list[int]]:
    return {tier: [int(m) for m in members(bits, 0)] for tier, bits in audience.tiers.items()}


def divided(sets: ShardSets, *, first_of_day: bool = False, rows_for_dormant: bool = False) -> Audience:
    return divide(sets, first_of_day=first_of_day, rows_for_dormant=rows_for_dormant)


def test_follower_belongs_to_the_fastest_eligible_tier() -> None:
    sets = live(vip=[0, 1, 2, 11], active7d=[0, 1, 3], active24h=[0, 2, 3], active30d=[0, 1, 2, 3, 4, 12])
    assert people(divided(sets)) == {
        Tier.P0: [0, 1],
        Tier.P1: [2, 3],
        Tier.P2: [4],
        Tier.DORMANT: [5, 6, 7, 8, 9],
    }


def test_dormant_followers_get_rows_in_the_standard_lane() -> None:
    tiers = people(divided(live(active24h=[3]), rows_for_dormant=True))
    assert tiers[Tier.P2] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert tiers[Tier.DORMANT] == []


def test_member_suppressed_by_several_rules_is_counted_once() -> None:
    audience = divided(live(muted=[0, 1, 20], off=[1, 2], digest=[2, 3], first=[3, 4]))
    assert audience.suppressed_counts == {"muted": 2, "off": 1, "digest": 1, "first": 1}
    assert people(audience)[Tier.DORMANT] == [5, 6, 7, 8, 9]


def test_first_burst_of_the_day_reaches_followers_with_volume_first() -> None:
    assert divided(live(first=[1]), first_of_day=True).suppressed_counts == {}
    assert divided(live(first=[1])).suppressed_counts == {"first": 1}


def test_restricted_burst_counts_only_followers_of_the_author() -> None:
    audience = divided(live(author=[1, 2, 30], muted=[2, 3]))
    assert people(audience)[Tier.DORMANT] == [1]
    assert audience.suppressed_counts == {"muted": 1}
