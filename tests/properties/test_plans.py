"""A plan covers every shard with followers exactly once per tier and step."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import MAX_SHARDS_PER_SLICE, TIERS_WITH_ALERTS, FollowerCounts, make_plan
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Slice, Step
from tests.support.domain_examples import burst

COUNTS = st.lists(st.sampled_from([0, 0, 1, 700, SHARD_MEMBERS]) | st.integers(0, SHARD_MEMBERS), max_size=400)


def head_of(counts: list[int]) -> FollowerCounts:
    return FollowerCounts(total=sum(counts), by_shard=counts)


@given(COUNTS, st.sampled_from(Verdict))
@settings(max_examples=60)
def test_each_shard_with_followers_is_in_one_slice_of_each_tier_and_step(counts: list[int], verdict: Verdict) -> None:
    slices = list(make_plan(burst(verdict=verdict), head_of(counts)).slices())
    followed = {shard for shard, n in enumerate(counts) if n}
    covered = Counter((slice_.step, slice_.tier, shard) for slice_ in slices for shard in slice_.shards)
    pushed = TIERS_WITH_ALERTS if verdict is Verdict.ALL else ()
    steps = [(Step.ROWS, tier) for tier in TIERS] + [(step, tier) for step in PUSH_STEPS for tier in pushed]
    assert covered == Counter((step, tier, shard) for step, tier in steps for shard in followed)


@given(COUNTS)
@settings(max_examples=60)
def test_slices_are_not_empty_not_too_wide_and_uniquely_named(counts: list[int]) -> None:
    slices = list(make_plan(burst(), head_of(counts)).slices())
    assert all(1 <= slice_.width <= MAX_SHARDS_PER_SLICE[slice_.rows_slice.tier] for slice_ in slices)
    assert [Slice.parse(str(slice_)) for slice_ in slices] == slices
    assert len(set(slices)) == len(slices)


@given(st.integers(1, 1_526), st.integers(1, SHARD_MEMBERS))
@settings(max_examples=60)
def test_denser_shards_make_narrower_slices(shards: int, followers: int) -> None:
    sparse, dense = (make_plan(burst(), head_of([n] * shards)) for n in (1, followers))
    assert all(dense.widths[tier] <= sparse.widths[tier] for tier in (Tier.P0, Tier.P1, Tier.P2))
