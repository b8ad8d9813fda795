"""Audience snapshot: tiers, members to alert, and counts that it fixes."""

import pytest

from notifier.domain.audience.bitmap import Bits, count, from_offsets, members, no_members
from notifier.domain.audience.snapshot import take_snapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind, ShardSets, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import Lane
from tests.support.domain_examples import EVE, SELF_NOVA, burst

ONE_MEMBER = from_offsets([7])

SETS = {
    SetKind.FOLLOWERS: from_offsets(range(100)),
    SetKind.MUTED: from_offsets([0]),
    SetKind.FIRST: from_offsets([1]),
    SetKind.VIP: from_offsets([2, 3]),
    SetKind.ACTIVE_7D: from_offsets([2, 3]),
    SetKind.ACTIVE_24H: from_offsets([2, 4, 5]),
    SetKind.ACTIVE_30D: from_offsets(range(10)),
    SetKind.WITH_DEVICE: from_offsets([0, 2, 4, 6, 50]),
}
LIVE = ShardSets(sets=SETS)


def test_snapshot_records_tiers_devices_and_counts() -> None:
    snapshot = take_snapshot(burst(first_of_day=False), 5, LIVE)
    assert [snapshot.reached_count(tier) for tier in TIERS] == [2, 2, 4]
    assert members(snapshot.to_alert, 0) == [2, 4]
    assert (snapshot.dormant_count, snapshot.suppressed_counts) == (90, {"muted": 1, "first": 1})


def test_pushed_tiers_and_members_who_asked_are_alerted() -> None:
    asked = SETS | {SetKind.PUSH_OPT_IN: from_offsets([6, 8, 50]), SetKind.NO_PUSH: from_offsets([4])}
    snapshot = take_snapshot(burst(first_of_day=False), 0, ShardSets(sets=asked))
    alerted = {tier: [int(m) for m in members(snapshot.members_to_alert(tier), 0)] for tier in Tier}
    assert alerted == {Tier.P0: [2], Tier.P1: [], Tier.P2: [6], Tier.DORMANT: [50]}
    assert [snapshot.for_tier(tier).alert_count for tier in TIERS] == [1, 0, 2]
    wider = take_snapshot(burst(first_of_day=False), 0, LIVE, pushed_tiers=TIERS)
    assert [wider.for_tier(tier).alert_count for tier in TIERS] == [1, 1, 1]


def test_tally_expects_reached_and_suppressed_but_not_dormant() -> None:
    tally = take_snapshot(burst(first_of_day=False), 5, LIVE).counts()
    assert (tally.shard, tally.expected, tally.suppressed, tally.dormant) == (5, 10, 2, 90)


@pytest.mark.parametrize("verdict", [Verdict.ROW, Verdict.HOLD])
def test_burst_without_push_verdict_alerts_no_member(verdict: Verdict) -> None:
    snapshot = take_snapshot(burst(verdict=verdict), 0, LIVE)
    assert count(snapshot.to_alert) == 0
    assert snapshot.reached_count(Tier.P0) == 2


def test_standard_lane_gives_every_follower_a_row() -> None:
    snapshot = take_snapshot(burst(lane=Lane.STANDARD), 0, LIVE)
    assert (snapshot.dormant_count, snapshot.reached_count(Tier.P2)) == (0, 95)


def test_owner_of_personal_subject_is_p0_despite_follower_rules() -> None:
    sets = ShardSets(sets={SetKind.FOLLOWERS: ONE_MEMBER, SetKind.MUTED: ONE_MEMBER, SetKind.WITH_DEVICE: ONE_MEMBER})
    snapshot = take_snapshot(burst(subject=SELF_NOVA), 0, sets)
    assert [snapshot.reached_count(tier) for tier in TIERS] == [1, 0, 0]
    assert count(snapshot.to_alert) == 1
    assert snapshot.counts().expected == 1


@pytest.mark.parametrize(("author", "reached"), [(ONE_MEMBER, 1), (no_members(), 0), (None, 0)])
def test_protected_author_reaches_only_confirmed_follower(author: Bits | None, reached: int) -> None:
    sets = ShardSets(sets={SetKind.FOLLOWERS: ONE_MEMBER, SetKind.WITH_DEVICE: ONE_MEMBER}, mentioner_followers=author)
    snapshot = take_snapshot(burst(subject=SELF_NOVA, restricted_to=EVE), 0, sets)
    assert (snapshot.reached_count(Tier.P0), count(snapshot.to_alert)) == (reached, reached)
