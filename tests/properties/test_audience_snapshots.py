"""An audience snapshot holds every follower once: by tier, dormant, or suppressed by a rule."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.codec import SnapshotFacts, pack, pack_snapshot, unpack, unpack_snapshot
from notifier.domain.audience.bitmap import Bits, count, from_offsets, members
from notifier.domain.audience.snapshot import AudienceSnapshot, take_snapshot
from notifier.domain.audience.tiers_and_member_sets import SUPPRESSING_SETS, TIERS, SetKind, Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Lane
from tests.properties.random_member_sets import BITMAPS, MEMBER_SETS, MEMBERS, MemberSets, shard_sets
from tests.support.domain_examples import EVE, burst

BURSTS = st.builds(
    burst,
    first_of_day=st.booleans(),
    lane=st.sampled_from(Lane),
    verdict=st.sampled_from(Verdict),
    restricted_to=st.sampled_from([None, EVE]),
)

MOMENTS = st.integers(0, 2**45).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms))
"""Whole milliseconds, as opening times are."""

PUSH_SETS: st.SearchStrategy[MemberSets] = st.fixed_dictionaries(
    {SetKind.WITH_DEVICE: MEMBERS, SetKind.NO_PUSH: MEMBERS, SetKind.PUSH_OPT_IN: MEMBERS}
)


def places(bits: Bits) -> set[int]:
    return {int(member) for member in members(bits, 0)}


def audience(member_sets: MemberSets, author: frozenset[int] | None) -> set[int]:
    followers = set(member_sets.get(SetKind.FOLLOWERS, frozenset()))
    return followers if author is None else followers & author


def expected_group(person: int, member_sets: MemberSets, burst_: Burst) -> Tier | SetKind:
    """Implement the rules again, for one follower."""

    def is_in(kind: SetKind) -> bool:
        return person in member_sets.get(kind, frozenset())

    has_own_volume = any(map(is_in, (SetKind.ALL, SetKind.OFF, SetKind.FIRST, SetKind.DIGEST)))
    first_kinds, account_wide_kinds = (
        {SetKind.FIRST, SetKind.OVERALL_FIRST},
        {SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST},
    )
    for kind in SUPPRESSING_SETS:
        if (
            is_in(kind)
            and not (kind in first_kinds and burst_.first_of_day)
            and not (kind in account_wide_kinds and has_own_volume)
        ):
            return kind
    if is_in(SetKind.VIP) and is_in(SetKind.ACTIVE_7D):
        return Tier.P0
    if is_in(SetKind.ACTIVE_24H):
        return Tier.P1
    return Tier.P2 if burst_.lane is Lane.STANDARD or is_in(SetKind.ACTIVE_30D) else Tier.DORMANT


def fixed_rule(members_by_tier: Mapping[Tier, frozenset[int]]) -> TierRule:
    """Return a rule with fixed members per tier, whatever the sets are."""
    return lambda _: {tier: from_offsets(members_) for tier, members_ in members_by_tier.items()}


@given(MEMBER_SETS, BURSTS, st.none() | MEMBERS)
@settings(max_examples=150)
def test_each_follower_is_in_the_group_that_the_rules_give(
    member_sets: MemberSets, burst_: Burst, author: frozenset[int] | None
) -> None:
    snapshot = take_snapshot(burst_, 0, shard_sets(member_sets, author))
    by_rule = {person: expected_group(person, member_sets, burst_) for person in audience(member_sets, author)}
    for tier in TIERS:
        assert places(snapshot.tiers[tier]) == {person for person, rule in by_rule.items() if rule is tier}
    assert snapshot.dormant_count == sum(rule is Tier.DORMANT for rule in by_rule.values())
    assert dict(snapshot.suppressed_counts) == {
        str(kind): n for kind in SUPPRESSING_SETS if (n := sum(rule is kind for rule in by_rule.values()))
    }


@given(MEMBER_SETS, BURSTS, st.none() | MEMBERS, st.dictionaries(st.sampled_from(Tier), MEMBERS))
@settings(max_examples=150)
def test_each_follower_is_in_one_group_under_any_tier_rule(
    member_sets: MemberSets,
    burst_: Burst,
    author: frozenset[int] | None,
    members_by_tier: Mapping[Tier, frozenset[int]],
) -> None:
    snapshot, by_activity_snapshot = (
        take_snapshot(burst_, 0, shard_sets(member_sets, author), rule)
        for rule in (fixed_rule(members_by_tier), by_activity)
    )
    in_tiers = {
        person
        for person in audience(member_sets, author)
        if isinstance(expected_group(person, member_sets, burst_), Tier)
    }
    p0, p1, p2 = (in_tiers & members_by_tier.get(tier, frozenset()) for tier in TIERS)
    p2_members = in_tiers - p0 - p1 if burst_.lane is Lane.STANDARD else p2 - p0 - p1
    assert [places(snapshot.tiers[tier]) for tier in TIERS] == [p0, p1 - p0, p2_members]
    assert snapshot.dormant_count == len(in_tiers - p0 - p1 - p2_members)
    assert snapshot.suppressed_counts == by_activity_snapshot.suppressed_counts


@given(MEMBER_SETS, BURSTS, st.none() | MEMBERS)
@settings(max_examples=100)
def test_expected_is_the_sum_of_reached_and_suppressed(
    member_sets: MemberSets, burst_: Burst, author: frozenset[int] | None
) -> None:
    snapshot = take_snapshot(burst_, 0, shard_sets(member_sets, author))
    tally = snapshot.counts()
    assert tally.expected == sum(snapshot.reached_count(tier) for tier in TIERS) + sum(
        snapshot.suppressed_counts.values()
    )
    assert tally.expected + tally.dormant == len(audience(member_sets, author))


@given(MEMBER_SETS, PUSH_SETS, BURSTS, st.sets(st.sampled_from(Tier)))
@settings(max_examples=100)
def test_alerts_go_to_pushed_tiers_and_users_who_asked(
    member_sets: MemberSets, push_sets: MemberSets, burst_: Burst, pushed_tiers: set[Tier]
) -> None:
    member_sets = {**member_sets, **push_sets}
    snapshot = take_snapshot(burst_, 0, shard_sets(member_sets), pushed_tiers=pushed_tiers)
    by_rule = {person: expected_group(person, member_sets, burst_) for person in audience(member_sets, None)}
    alertable = (
        push_sets[SetKind.WITH_DEVICE] - push_sets[SetKind.NO_PUSH] if burst_.verdict is Verdict.ALL else frozenset()
    )
    for tier in Tier:
        expected = {person for person, rule in by_rule.items() if rule is tier} & alertable
        assert places(snapshot.members_to_alert(tier)) == (
            expected if tier in pushed_tiers else expected & push_sets[SetKind.PUSH_OPT_IN]
        )
    assert [snapshot.alert_count(tier) for tier in (Tier.P0, Tier.P1)] == [
        count(snapshot.members_to_alert(tier)) for tier in (Tier.P0, Tier.P1)
    ]
    assert snapshot.alert_count(Tier.P2) == count(snapshot.members_to_alert(Tier.P2)) + count(
        snapshot.members_to_alert(Tier.DORMANT)
    )


@given(st.tuples(BITMAPS, BITMAPS, BITMAPS), BITMAPS, st.integers(0, 2**17), MOMENTS)
@settings(max_examples=25)
def test_snapshot_round_trips_through_storage(
    tiers: tuple[Bits, Bits, Bits], push: Bits, dormant: int, opened_at: datetime
) -> None:
    snapshot = AudienceSnapshot(
        shard=3,
        opened_at=opened_at,
        tiers=dict(zip(TIERS, tiers, strict=True)),
        to_alert=push,
        dormant_count=dormant,
        suppressed_counts={"off": 1},
    )
    read = unpack_snapshot(3, pack_snapshot(snapshot))
    assert (read.counts(), read.opened_at) == (snapshot.counts(), opened_at)
    assert all((read.tiers[tier] == snapshot.tiers[tier]).all() for tier in TIERS)
    assert count(read.to_alert & push) == count(push) == count(read.to_alert)
    facts = unpack(SnapshotFacts, pack(SnapshotFacts.of_snapshot(snapshot)))
    assert facts.counts(3) == snapshot.counts()
    assert [facts.alert_count(tier) for tier in TIERS] == [snapshot.for_tier(tier).alert_count for tier in TIERS]
