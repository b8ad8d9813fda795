"""Slices: their names, their pools and the terms of these."""

import pytest

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import POOL_TERMS, PUSH_STEPS, TIME_SHARE, Pool, Slice, Step
from notifier.domain.errors import BadSubject
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.support.examples import slice_of


@pytest.mark.parametrize("owner", ["nova", "a/b", "a#1/rows/p1/0-0"])
def test_a_slice_is_read_as_it_is_written(owner: str) -> None:
    one = Slice(BurstKey(Subject(Kind.MENTION, UserId(owner)), 12), Step.ROWS, Tier.P1, 0, 63)
    assert Slice.parse(str(one)) == one


@pytest.mark.parametrize(
    "text", ["", "mention:nova#1", "mention:nova#1/rows/p1/0", "mention:nova#1/rows/p9/0-1", "nova#1/rows/p1/0-1"]
)
def test_what_is_no_slice_is_refused(text: str) -> None:
    with pytest.raises(BadSubject):
        Slice.parse(text)


def test_rows_go_to_the_pool_of_their_tier_and_phones_to_that_of_their_provider() -> None:
    assert [slice_of(tier).pool for tier in (Tier.P0, Tier.P1, Tier.P2)] == [Pool.P0, Pool.P1, Pool.P2]
    for step, pool in zip(PUSH_STEPS, (Pool.APNS, Pool.FCM, Pool.WEB), strict=True):
        assert {slice_of(tier, step=step).pool for tier in Tier} == {pool}
        assert str(pool) == f"push.{step.platform}"


def test_both_ends_of_a_slice_belong_to_it() -> None:
    assert list(slice_of(first=3, last=5).shards) == [3, 4, 5]
    assert slice_of(first=3).width == 1


def test_a_lost_task_is_found_within_its_tier_s_deadline() -> None:
    assert [POOL_TERMS[pool].requeue_after.total_seconds() for pool in (Pool.P0, Pool.P1, Pool.P2)] == [3, 5, 60]
    assert all(terms.claim <= TIME_SHARE < terms.expires_after for terms in POOL_TERMS.values())


def test_p2_is_worth_six_hours() -> None:
    assert POOL_TERMS[Pool.P2].expires_after.total_seconds() == 6 * 3600
