"""Plan: width of its slices, their order, and which get alerts."""

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import (
    MAX_SHARDS_PER_SLICE,
    NO_FOLLOWERS,
    FollowerCounts,
    Plan,
    intersection,
    make_plan,
)
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Step
from notifier.domain.ids import Lane, Platform
from tests.support.domain_examples import EVE, SELF_NOVA, burst, plan_of

FULL = FollowerCounts(total=1_526 * SHARD_MEMBERS, by_shard=[SHARD_MEMBERS] * 1_526)


def runs(planned: Plan, step: Step, tier: Tier) -> list[tuple[int, int]]:
    return [(slice_.first, slice_.last) for slice_ in planned.slices() if (slice_.step, slice_.tier) == (step, tier)]


def test_plan_without_followers_has_no_slices() -> None:
    assert list(make_plan(burst(), NO_FOLLOWERS).slices()) == []


def test_two_hundred_million_followers_are_a_few_hundred_slices() -> None:
    slices = list(make_plan(burst(), FULL).slices())
    assert 100 < len(slices) < 700
    assert all(slice_.width <= MAX_SHARDS_PER_SLICE[slice_.rows_slice.tier] for slice_ in slices)


def test_personal_subject_has_slices_of_p0_only() -> None:
    planned = make_plan(burst(subject=SELF_NOVA), FollowerCounts(total=1, by_shard=[0, 0, 1]))
    assert [(slice_.step, slice_.tier, slice_.shards) for slice_ in planned.slices()] == [
        (Step.ROWS, Tier.P0, range(2, 3)),
        *((step, Tier.P0, range(2, 3)) for step in PUSH_STEPS),
    ]


def test_shards_without_followers_are_left_out() -> None:
    planned = make_plan(burst(), FollowerCounts(total=3, by_shard=[0, 1, 1, 0, 0, 1, 0]))
    assert planned.shard_spans == ((1, 2), (5, 5))
    assert runs(planned, Step.ROWS, Tier.P0) == [(1, 2), (5, 5)]


def test_restricted_burst_is_planned_for_shards_of_common_followers() -> None:
    of_subject, of_author = (
        FollowerCounts(total=33, by_shard=[9, 9, 9, 0, 6]),
        FollowerCounts(total=8, by_shard=[0, 5, 0, 3]),
    )
    common = intersection(of_subject, of_author)
    assert (common.total, list(common.by_shard)) == (5, [0, 5, 0, 0])
    assert make_plan(burst(restricted_to=EVE), common).shard_spans == ((1, 1),)


def test_p0_and_p1_start_at_opposite_ends_to_share_snapshots() -> None:
    planned = plan_of(shards=3)
    assert runs(planned, Step.ROWS, Tier.P0) == [(0, 0), (1, 1), (2, 2)]
    assert runs(planned, Step.ROWS, Tier.P1) == [(2, 2), (1, 1), (0, 0)]


def test_alert_slices_match_the_row_slices_and_follow_them() -> None:
    planned = make_plan(burst(), FULL)
    rows = {tier: runs(planned, Step.ROWS, tier) for tier in TIERS}
    for step in PUSH_STEPS:
        assert {tier: runs(planned, step, tier) for tier in TIERS} == rows
    assert [slice_.step is Step.ROWS for slice_ in planned.slices()] == sorted(
        (slice_.step is Step.ROWS for slice_ in planned.slices()), reverse=True
    )


def test_dormant_alerts_have_the_slices_of_p2() -> None:
    planned = make_plan(burst(), FULL)
    assert runs(planned, Step.FCM, Tier.DORMANT) == runs(planned, Step.ROWS, Tier.P2)
    assert runs(make_plan(burst(lane=Lane.STANDARD), FULL), Step.FCM, Tier.DORMANT) == []


def test_only_served_platforms_have_alert_slices() -> None:
    planned = make_plan(burst(), FULL, [Platform.WEB])
    assert {slice_.step for slice_ in planned.slices()} == {Step.ROWS, Step.WEB}


@pytest.mark.parametrize("verdict", [Verdict.ROW, Verdict.HOLD, Verdict.DENY])
def test_burst_without_push_verdict_has_no_alert_slices(verdict: Verdict) -> None:
    planned = make_plan(burst(verdict=verdict), FULL)
    assert {slice_.step for slice_ in planned.slices()} == {Step.ROWS}
    assert {slice_.tier for slice_ in planned.slices()} == set(TIERS)
