"""A plan covers every shard with followers exactly once for each tier, and calls nobody to do so."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.plan import PUSHED_TIERS, WIDEST, SetHead, plan
from notifier.domain.delivery.slice import PHONES, Slice, Step
from tests.support.examples import burst

COUNTS = st.lists(st.sampled_from([0, 0, 1, 700, SHARD_MEMBERS]) | st.integers(0, SHARD_MEMBERS), max_size=400)


def head_of(counts: list[int]) -> SetHead:
    return SetHead(total=sum(counts), counts=counts)


@given(COUNTS, st.sampled_from(Verdict))
@settings(max_examples=60)
def test_planner_covers_once(counts: list[int], verdict: Verdict) -> None:
    """Every shard with followers is in one slice of each tier."""
    found = list(plan(burst(verdict=verdict), head_of(counts)).slices())
    followed = {shard for shard, n in enumerate(counts) if n}
    covered = Counter((one.step, one.tier, shard) for one in found for shard in one.shards)
    pushed = PUSHED_TIERS if verdict is Verdict.ALL else ()
    steps = [(Step.ROWS, tier) for tier in TIERS] + [(step, tier) for step in PHONES for tier in pushed]
    assert covered == Counter((step, tier, shard) for step, tier in steps for shard in followed)


@given(COUNTS)
@settings(max_examples=60)
def test_no_slice_is_empty_or_too_wide_and_each_has_a_name_of_its_own(counts: list[int]) -> None:
    found = list(plan(burst(), head_of(counts)).slices())
    assert all(1 <= one.width <= WIDEST[one.rows.tier] for one in found)
    assert [Slice.parse(str(one)) for one in found] == found
    assert len(set(found)) == len(found)


@given(st.integers(1, 1_526), st.integers(1, SHARD_MEMBERS))
@settings(max_examples=60)
def test_denser_shards_make_narrower_slices(shards: int, followers: int) -> None:
    thin, thick = (plan(burst(), head_of([n] * shards)) for n in (1, followers))
    assert all(thick.widths[tier] <= thin.widths[tier] for tier in (Tier.P0, Tier.P1, Tier.P2))
