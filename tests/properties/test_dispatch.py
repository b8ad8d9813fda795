"""The dispatcher's decisions: within credit, fair, after the rows, and never stuck."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, account
from notifier.domain.delivery.scheduling import CREDITS, Credit, DispatchDecision, decide, expired, giving_way
from notifier.domain.delivery.slice import Pool, Slice, Step
from notifier.domain.delivery.throttle import UNLIMITED, TierLimit
from tests.properties.bookkeeping import SECONDS, files, plans
from tests.support.examples import NOON, SECOND, entry, piece, plan_of

CREDIT = st.builds(Credit, st.integers(0, 6), st.integers(0, 12))
PURSES = st.fixed_dictionaries(dict.fromkeys(Pool, CREDIT))
ALLOWANCES = st.dictionaries(
    st.sampled_from(TIERS),
    st.sampled_from([TierLimit(rate=None), TierLimit(rate=0.0, by="t1"), TierLimit(rate=9.0, by="t2")]),
)
LEFT = st.fixed_dictionaries(dict.fromkeys(TIERS, st.sampled_from([-5.0, 0.0, 1.0, 1e9])))

Purses = Mapping[Pool, Credit]
Allowances = Mapping[Tier, TierLimit]


@st.composite
def worlds(draw: st.DrawFn) -> list[BurstProgress]:
    """A few bursts at all stages of their work."""
    moments = draw(st.lists(SECONDS, min_size=1, max_size=2))
    return [draw(files(seq=n, opened_at=NOON - moment)).account for n, moment in enumerate(moments, 1)]


def chosen(
    accounts: Sequence[BurstProgress],
    now: datetime,
    purses: Purses,
    allowances: Allowances | None = None,
    left: Mapping[Tier, float] | None = None,
) -> DispatchDecision:
    return decide(accounts, now=now, credits=purses, allowances=allowances or {}, people_left=left or {})


def of_pool(pool: Pool, slices: Sequence[Slice]) -> list[Slice]:
    return [one for one in slices if one.pool is pool]


def running(accounts: Sequence[BurstProgress], now: datetime) -> list[Slice]:
    """Phones whose rows don't stand can't be running."""
    return [
        one
        for account in accounts
        for one, standing in account.standings.items()
        if standing.in_flight(now) and account.awake(standing, now)
    ]


@given(worlds(), SECONDS, PURSES, ALLOWANCES, LEFT)
@settings(max_examples=60)
def test_credit_is_never_exceeded(
    accounts: list[BurstProgress], passed: timedelta, purses: Purses, allowances: Allowances, left: Mapping[Tier, float]
) -> None:
    now = NOON + passed
    queue = chosen(accounts, now, purses, allowances, left).queue
    plans = {account.plan.burst: account for account in accounts}
    for pool in Pool:
        new, busy = of_pool(pool, queue), of_pool(pool, running(accounts, now))
        if new:
            assert len(new) + len(busy) <= purses[pool].slices
        # What is only released is no work for the shards' credit, and a slice alone may be wider than all of it.
        work = [one for one in new if not expired(plans[one.burst], one, now)]
        if work and len(busy) + len(work) > 1:
            assert sum(one.width for one in busy + work) <= purses[pool].shards


@given(worlds(), SECONDS, PURSES, ALLOWANCES, LEFT)
@settings(max_examples=60)
def test_only_what_waits_is_queued_or_parked_and_nothing_twice(
    accounts: list[BurstProgress], passed: timedelta, purses: Purses, allowances: Allowances, left: Mapping[Tier, float]
) -> None:
    now = NOON + passed
    decision = chosen(accounts, now, purses, allowances, left)
    touched = [*decision.queue, *(one for one, _ in decision.park)]
    assert len(touched) == len(set(touched))
    found = {account.plan.burst: account for account in accounts}
    for one in touched:
        standing = found[one.burst].standings[one]
        assert found[one.burst].awake(standing, now)
        assert not standing.in_flight(now)


@given(worlds(), SECONDS, PURSES, ALLOWANCES, LEFT)
@settings(max_examples=60)
def test_what_a_throttle_holds_is_parked_under_its_name_and_only_the_late_pass_a_pause(
    accounts: list[BurstProgress], passed: timedelta, purses: Purses, allowances: Allowances, left: Mapping[Tier, float]
) -> None:
    now = NOON + passed
    decision = chosen(accounts, now, purses, allowances, left)
    found = {account.plan.burst: account for account in accounts}
    for one, by in decision.park:
        assert by == allowances[one.tier].by
        assert one.step is Step.ROWS
        assert by not in found[one.burst].standings[one].parked_by
    for one in decision.queue:
        allowed = allowances.get(one.tier, TierLimit(rate=None))
        spent = allowed.rate is not None and left[one.tier] <= 0
        assert one.step is not Step.ROWS or not spent or expired(found[one.burst], one, now)


@given(worlds(), SECONDS, PURSES, CREDIT, ALLOWANCES)
@settings(max_examples=50)
def test_nothing_done_to_p2_is_felt_by_the_others(
    accounts: list[BurstProgress], passed: timedelta, purses: Purses, pressed: Credit, allowances: Allowances
) -> None:
    calm: Allowances = {**allowances, Tier.P2: UNLIMITED}
    before = chosen(accounts, NOON + passed, purses, calm)
    after = chosen(accounts, NOON + passed, {**purses, Pool.P2: pressed}, allowances)
    for pool in set(Pool) - {Pool.P2}:
        assert of_pool(pool, before.queue) == of_pool(pool, after.queue)


@given(worlds(), SECONDS, PURSES)
@settings(max_examples=50)
def test_a_pool_with_credit_and_work_is_only_idle_where_it_gives_way(
    accounts: list[BurstProgress], passed: timedelta, purses: Purses
) -> None:
    now = NOON + passed
    queue, ways = chosen(accounts, now, purses).queue, giving_way(accounts, now, {})
    for pool in Pool:
        waiting = [
            one
            for account in accounts
            for one, standing in account.standings.items()
            if one.pool is pool
            and account.awake(standing, now)
            and not standing.in_flight(now)
            and one.burst not in ways.get(pool, ())
        ]
        if waiting and purses[pool].slices > 0 and not of_pool(pool, running(accounts, now)):
            assert of_pool(pool, queue)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 40))
@settings(max_examples=60)
def test_a_small_burst_gets_its_turns_beside_a_large_one(large: int, small: int, slices: int) -> None:
    accounts = [account(plan_of(seq=n, shards=shards), (), ()) for n, shards in ((1, large), (2, small))]
    queue = chosen(accounts, NOON, {**CREDITS, Pool.P1: Credit(slices, 10_000)}).queue
    of_small = [one for one in of_pool(Pool.P1, queue) if one.burst.seq == 2]
    assert len(of_small) >= min(small, slices // 2)
    assert len(of_pool(Pool.P1, queue)) == min(large + small, slices)


@given(st.data(), st.fixed_dictionaries(dict.fromkeys(Pool, st.builds(Credit, st.integers(1, 4), st.integers(0, 6)))))
@settings(max_examples=40)
def test_all_work_is_done_some_day_whatever_the_widths_and_the_credit(data: st.DataObject, purses: Purses) -> None:
    accounts = [account(data.draw(plans(seq=n, most_shards=6)), (), ()) for n in (1, 2)]
    slices = sum(len(one.standings) for one in accounts)
    for _ in range(slices):
        queue = chosen(accounts, NOON, purses).queue
        for done in queue:
            n = done.burst.seq - 1
            accounts[n] = accounts[n].with_entry(entry(done, Fact.DONE))
    assert all(one.settled for one in accounts)


@given(st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=25)
def test_a_wide_slice_is_queued_however_many_narrow_ones_keep_coming(width: int, busy: int) -> None:
    wide = account(plan_of(seq=1, shards=width, width=width), (), ())
    narrow = {n: account(plan_of(seq=n, shards=1, opened_at=NOON + n * SECOND), (), ()) for n in range(2, 30)}
    queue = [piece(Tier.P0, seq=n) for n in range(2, 2 + busy)]
    for ending in range(2, 3 + busy):
        for one in queue:
            narrow[one.burst.seq] = narrow[one.burst.seq].with_entry(entry(one, Fact.DISPATCHED, n=1))
        purses = {**CREDITS, Pool.P0: Credit(busy + 1, width)}
        queue = of_pool(Pool.P0, chosen([wide, *narrow.values()], NOON, purses).queue)
        if piece(Tier.P0, 0, width - 1) in queue:
            return
        narrow[ending] = narrow[ending].with_entry(entry(piece(Tier.P0, seq=ending), Fact.DONE))
    raise AssertionError("the wide slice was passed by narrow ones")
