"""Slices: their names, their pools, and the timing of the pools."""

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, PUSH_STEPS, TIME_SHARE, Pool, Slice, Step
from notifier.domain.errors import BadSubject
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.support.domain_examples import slice_of


@pytest.mark.parametrize("owner", ["nova", "a/b", "a#1/rows/p1/0-0"])
def test_slice_name_is_parsed_as_written(owner: str) -> None:
    slice_ = Slice(BurstKey(Subject(Kind.MENTION, UserId(owner)), 12), Step.ROWS, Tier.P1, 0, 63)
    assert Slice.parse(str(slice_)) == slice_


@pytest.mark.parametrize(
    "text", ["", "mention:nova#1", "mention:nova#1/rows/p1/0", "mention:nova#1/rows/p9/0-1", "nova#1/rows/p1/0-1"]
)
def test_invalid_slice_name_is_refused(text: str) -> None:
    with pytest.raises(BadSubject):
        Slice.parse(text)


def test_rows_have_pools_by_tier_and_alerts_by_provider() -> None:
    assert [slice_of(tier).pool for tier in (Tier.P0, Tier.P1, Tier.P2)] == [Pool.P0, Pool.P1, Pool.P2]
    for step, pool in zip(PUSH_STEPS, (Pool.APNS, Pool.FCM, Pool.WEB), strict=True):
        assert {slice_of(tier, step=step).pool for tier in Tier} == {pool}
        assert str(pool) == f"push.{step.platform}"


def test_slice_includes_both_ends() -> None:
    assert list(slice_of(first=3, last=5).shards) == [3, 4, 5]
    assert slice_of(first=3).width == 1


def test_unclaimed_deadlines_depend_on_the_tier() -> None:
    assert [POOL_TIMINGS[pool].requeue_after.total_seconds() for pool in (Pool.P0, Pool.P1, Pool.P2)] == [3, 5, 60]
    assert all(timing.lease <= TIME_SHARE < timing.expires_after for timing in POOL_TIMINGS.values())


def test_p2_expires_after_six_hours() -> None:
    assert POOL_TIMINGS[Pool.P2].expires_after.total_seconds() == 6 * 3600
