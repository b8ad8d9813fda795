"""The plan: how wide its slices are, in which order they start, and who gets alerts."""

import pytest

from notifier.domain.audience import TIERS, Tier
from notifier.domain.bits import SHARD_MEMBERS
from notifier.domain.plan import NO_FOLLOWERS, WIDEST, Plan, SetHead, narrowed, plan
from notifier.domain.reach import Verdict
from notifier.domain.slice import Step
from tests.unit.examples import EVE, SELF_NOVA, burst, plan_of

FULL = SetHead(total=1_526 * SHARD_MEMBERS, counts=[SHARD_MEMBERS] * 1_526)


def runs(of: Plan, step: Step, tier: Tier) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in of.slices() if (one.step, one.tier) == (step, tier)]


def test_nobody_s_plan_has_no_slices() -> None:
    assert list(plan(burst(), NO_FOLLOWERS).slices()) == []


def test_two_hundred_million_followers_are_a_few_hundred_slices() -> None:
    found = list(plan(burst(), FULL).slices())
    assert 100 < len(found) < 500
    assert all(one.width <= WIDEST[one.tier] for one in found)


def test_an_audience_of_one_has_rows_and_an_alert_of_p0_alone() -> None:
    found = plan(burst(subject=SELF_NOVA), SetHead(total=1, counts=[0, 0, 1]))
    assert [(one.step, one.tier, one.shards) for one in found.slices()] == [
        (Step.ROWS, Tier.P0, range(2, 3)),
        (Step.PUSH, Tier.P0, range(2, 3)),
    ]


def test_shards_without_followers_are_left_out() -> None:
    found = plan(burst(), SetHead(total=3, counts=[0, 1, 1, 0, 0, 1, 0]))
    assert found.ranges == ((1, 2), (5, 5))
    assert runs(found, Step.ROWS, Tier.P0) == [(1, 2), (5, 5)]


def test_a_restricted_burst_is_planned_where_both_its_subject_and_its_author_have_followers() -> None:
    of_subject, of_author = SetHead(total=33, counts=[9, 9, 9, 0, 6]), SetHead(total=8, counts=[0, 5, 0, 3])
    common = narrowed(of_subject, of_author)
    assert (common.total, list(common.counts)) == (5, [0, 5, 0, 0])
    assert plan(burst(restricted_to=EVE), common).ranges == ((1, 1),)


def test_p0_starts_at_the_front_and_p1_at_the_back_so_that_they_share_the_sealing() -> None:
    found = plan_of(shards=3)
    assert runs(found, Step.ROWS, Tier.P0) == [(0, 0), (1, 1), (2, 2)]
    assert runs(found, Step.ROWS, Tier.P1) == [(2, 2), (1, 1), (0, 0)]


def test_alerts_go_to_the_same_slices_as_the_rows_of_p0_and_p1_and_after_all_rows() -> None:
    found = plan(burst(), FULL)
    assert found.pushed == (Tier.P0, Tier.P1)
    assert [runs(found, Step.PUSH, t) for t in found.pushed] == [runs(found, Step.ROWS, t) for t in found.pushed]
    steps = [one.step for one in found.slices()]
    assert steps == sorted(steps, key=[Step.ROWS, Step.PUSH].index)


@pytest.mark.parametrize("verdict", [Verdict.ROW, Verdict.HOLD, Verdict.DENY])
def test_who_may_wake_no_phone_gets_no_push_slices(verdict: Verdict) -> None:
    found = plan(burst(verdict=verdict), FULL)
    assert {one.step for one in found.slices()} == {Step.ROWS}
    assert {one.tier for one in found.slices()} == set(TIERS)
