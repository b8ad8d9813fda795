"""The plan: how wide its slices are, in which order they start, and who gets alerts."""

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import (
    MAX_SHARDS_PER_SLICE,
    NO_FOLLOWERS,
    FollowerCounts,
    Plan,
    intersection,
    make_plan,
)
from notifier.domain.delivery.slice import PUSH_STEPS, Step
from notifier.domain.ids import Lane, Platform
from tests.support.examples import EVE, SELF_NOVA, burst, plan_of

FULL = FollowerCounts(total=1_526 * SHARD_MEMBERS, by_shard=[SHARD_MEMBERS] * 1_526)


def runs(of: Plan, step: Step, tier: Tier) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in of.slices() if (one.step, one.tier) == (step, tier)]


def test_nobody_s_plan_has_no_slices() -> None:
    assert list(make_plan(burst(), NO_FOLLOWERS).slices()) == []


def test_two_hundred_million_followers_are_a_few_hundred_slices() -> None:
    found = list(make_plan(burst(), FULL).slices())
    assert 100 < len(found) < 700
    assert all(one.width <= MAX_SHARDS_PER_SLICE[one.rows.tier] for one in found)


def test_an_audience_of_one_has_rows_and_an_alert_of_p0_alone() -> None:
    found = make_plan(burst(subject=SELF_NOVA), FollowerCounts(total=1, by_shard=[0, 0, 1]))
    assert [(one.step, one.tier, one.shards) for one in found.slices()] == [
        (Step.ROWS, Tier.P0, range(2, 3)),
        *((step, Tier.P0, range(2, 3)) for step in PUSH_STEPS),
    ]


def test_shards_without_followers_are_left_out() -> None:
    found = make_plan(burst(), FollowerCounts(total=3, by_shard=[0, 1, 1, 0, 0, 1, 0]))
    assert found.ranges == ((1, 2), (5, 5))
    assert runs(found, Step.ROWS, Tier.P0) == [(1, 2), (5, 5)]


def test_a_restricted_burst_is_planned_where_both_its_subject_and_its_author_have_followers() -> None:
    of_subject, of_author = (
        FollowerCounts(total=33, by_shard=[9, 9, 9, 0, 6]),
        FollowerCounts(total=8, by_shard=[0, 5, 0, 3]),
    )
    common = intersection(of_subject, of_author)
    assert (common.total, list(common.by_shard)) == (5, [0, 5, 0, 0])
    assert make_plan(burst(restricted_to=EVE), common).ranges == ((1, 1),)


def test_p0_starts_at_the_front_and_p1_at_the_back_so_that_they_share_the_sealing() -> None:
    found = plan_of(shards=3)
    assert runs(found, Step.ROWS, Tier.P0) == [(0, 0), (1, 1), (2, 2)]
    assert runs(found, Step.ROWS, Tier.P1) == [(2, 2), (1, 1), (0, 0)]


def test_alerts_go_to_the_same_slices_as_the_rows_for_each_provider_and_after_all_rows() -> None:
    found = make_plan(burst(), FULL)
    rows = {tier: runs(found, Step.ROWS, tier) for tier in TIERS}
    for step in PUSH_STEPS:
        assert {tier: runs(found, step, tier) for tier in TIERS} == rows
    assert [one.step is Step.ROWS for one in found.slices()] == sorted(
        (one.step is Step.ROWS for one in found.slices()), reverse=True
    )


def test_who_is_served_by_pull_alone_shares_the_slices_of_p2() -> None:
    found = make_plan(burst(), FULL)
    assert runs(found, Step.FCM, Tier.DORMANT) == runs(found, Step.ROWS, Tier.P2)
    assert runs(make_plan(burst(lane=Lane.STANDARD), FULL), Step.FCM, Tier.DORMANT) == []


def test_alerts_go_nowhere_but_to_the_platforms_that_are_served() -> None:
    found = make_plan(burst(), FULL, [Platform.WEB])
    assert {one.step for one in found.slices()} == {Step.ROWS, Step.WEB}


@pytest.mark.parametrize("verdict", [Verdict.ROW, Verdict.HOLD, Verdict.DENY])
def test_who_may_wake_no_phone_gets_no_push_slices(verdict: Verdict) -> None:
    found = make_plan(burst(verdict=verdict), FULL)
    assert {one.step for one in found.slices()} == {Step.ROWS}
    assert {one.tier for one in found.slices()} == set(TIERS)
