"""Scheduling: which slices the dispatcher queues next."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import EXPECTED_SHARE, MAX_SHARDS_PER_SLICE, Plan
from notifier.domain.delivery.scheduling import (
    MAX_YIELD_TIME,
    P0_LATE_AFTER,
    POOL_CREDITS,
    Credit,
    DispatchDecision,
    decide,
    expected_deliveries,
    is_expired,
)
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool, Slice, Step
from notifier.domain.delivery.throttle_and_backpressure import TierLimit
from tests.support.domain_examples import HOUR, NOON, SECOND, claim, entry, plan_of, slice_of

PAUSED = {Tier.P2: TierLimit(rate=0.0, throttle_id="t1")}
P1_SLOWED = {Tier.P1: TierLimit(rate=1_000.0, throttle_id="t1")}
SLOWED = {Tier.P2: TierLimit(rate=1_000.0, throttle_id="t1")}
NO_CREDIT = Credit(slices=0, shards=0)


def progress(plan: Plan, *entries: LedgerEntry) -> BurstProgress:
    return burst_progress(plan, entries, ())


def decided(
    *bursts: BurstProgress,
    now: datetime = NOON,
    credits: Mapping[Pool, Credit] | None = None,
    limits: Mapping[Tier, TierLimit] | None = None,
    deliveries_left: float = 0.0,
) -> DispatchDecision:
    return decide(
        bursts,
        now=now,
        credits={**POOL_CREDITS, **(credits or {})},
        limits=limits or {},
        deliveries_left={Tier.P2: deliveries_left},
    )


def in_pool(decision: DispatchDecision, pool: Pool) -> list[Slice]:
    return [slice_ for slice_ in decision.queue if slice_.pool is pool]


def with_p1_done(plan: Plan) -> BurstProgress:
    """Return progress whose p1 has ended, so that p2 no longer waits for it."""
    return progress(plan, *(entry(slice_, Fact.DONE) for slice_ in plan.slices() if slice_.pool is Pool.P1))


def test_slices_are_queued_within_credit_and_p2_after_p1() -> None:
    plan = plan_of(shards=2)
    first = decided(progress(plan)).queue
    assert {slice_.pool for slice_ in first} == {Pool.P0, Pool.P1}
    second = decided(progress(plan, *(entry(slice_, Fact.DISPATCHED, n=1) for slice_ in first))).queue
    assert {slice_.pool for slice_ in second} == {Pool.P2}
    assert {*first, *second} == set(plan.slices())


def test_p2_waits_until_every_slice_of_p1_was_queued() -> None:
    plan = plan_of(shards=3)
    entries = [entry(slice_of(Tier.P1, 2), Fact.DISPATCHED, n=1), entry(slice_of(Tier.P1, 1), Fact.DONE)]
    assert in_pool(decided(progress(plan, *entries), credits={Pool.P1: NO_CREDIT}), Pool.P2) == []
    last_entry = entry(slice_of(Tier.P1, 0), Fact.DEAD)
    assert len(in_pool(decided(progress(plan, *entries, last_entry)), Pool.P2)) == 3


def test_p2_waits_again_for_a_lost_slice_of_p1() -> None:
    plan = plan_of(shards=1)
    lost = progress(plan, entry(slice_of(Tier.P1), Fact.DISPATCHED, n=1))
    later = NOON + 5 * SECOND
    assert {slice_.pool for slice_ in decided(lost, now=later).queue} == {Pool.P0, Pool.P1}


def test_p2_does_not_wait_for_old_throttled_or_foreign_p1() -> None:
    plan = plan_of(shards=2)
    assert (
        len(in_pool(decided(progress(plan), now=NOON + MAX_YIELD_TIME[Pool.P2], credits={Pool.P1: NO_CREDIT}), Pool.P2))
        == 2
    )
    assert len(in_pool(decided(progress(plan), limits=P1_SLOWED), Pool.P2)) == 2
    second_plan = plan_of(seq=2, shards=1)
    assert [slice_.burst for slice_ in in_pool(decided(progress(plan), with_p1_done(second_plan)), Pool.P2)] == [
        second_plan.burst
    ]


def test_late_p0_of_any_burst_holds_back_all_p1_and_p2() -> None:
    second, late = with_p1_done(plan_of(seq=2, shards=1, opened_at=NOON + P0_LATE_AFTER)), progress(plan_of(shards=1))
    soon = decided(second, late, now=NOON + P0_LATE_AFTER - SECOND / 10)
    assert {Pool.P1, Pool.P2} <= {slice_.pool for slice_ in soon.queue}
    assert {slice_.pool for slice_ in decided(second, late, now=NOON + P0_LATE_AFTER).queue} == {Pool.P0}
    p0 = entry(slice_of(Tier.P0), Fact.DONE)
    after_p0 = decided(second, progress(late.plan, p0), now=NOON + P0_LATE_AFTER)
    assert {(slice_.burst.seq, slice_.pool) for slice_ in after_p0.queue} == {(1, Pool.P1), (2, Pool.P0), (2, Pool.P2)}


def test_p1_waits_two_seconds_at_most_for_late_p0() -> None:
    late, paused = progress(plan_of(shards=1)), {Tier.P0: TierLimit(rate=0.0, throttle_id="t1")}
    assert in_pool(decided(late, now=NOON + MAX_YIELD_TIME[Pool.P1] - SECOND / 10), Pool.P1) == []
    assert in_pool(decided(late, now=NOON + MAX_YIELD_TIME[Pool.P1]), Pool.P1) == [slice_of(Tier.P1)]
    assert in_pool(decided(late, now=NOON + P0_LATE_AFTER, limits=paused), Pool.P1) == [slice_of(Tier.P1)]
    large = progress(plan_of(shards=MAX_SHARDS_PER_SLICE[Tier.P0] + 1))
    assert in_pool(decided(large, now=NOON + P0_LATE_AFTER), Pool.P1)
    new = progress(plan_of(seq=2, shards=1, opened_at=NOON + MAX_YIELD_TIME[Pool.P2]))
    assert len(in_pool(decided(late, new, now=NOON + MAX_YIELD_TIME[Pool.P2]), Pool.P1)) == 2


def test_burst_opened_in_the_future_does_not_wait() -> None:
    late, ahead = progress(plan_of(shards=1)), progress(plan_of(seq=2, shards=1, opened_at=NOON + 86_400 * SECOND))
    queue = decided(late, ahead, now=NOON + P0_LATE_AFTER).queue
    assert {(slice_.burst.seq, slice_.pool) for slice_ in queue if slice_.pool is not Pool.P0} == {
        (2, Pool.P1),
        (2, Pool.P2),
    }


def test_slices_in_flight_use_credit_and_are_not_queued_again() -> None:
    plan = plan_of(shards=4)
    queued = [entry(slice_of(Tier.P1, n), Fact.DISPATCHED, n=1) for n in (3, 2)]
    queued_now = in_pool(decided(progress(plan, *queued), credits={Pool.P1: Credit(slices=3, shards=9)}), Pool.P1)
    assert queued_now == [slice_of(Tier.P1, 1)]


def test_ended_slice_is_never_queued() -> None:
    plan = plan_of(shards=1)
    ends = (Fact.DONE, Fact.PULLED, Fact.DEAD)
    assert decided(progress(plan, *(entry(p, f) for p, f in zip(plan.slices(), ends, strict=True)))).queue == ()


def test_lost_dispatch_is_queued_again_after_its_deadline() -> None:
    plan = plan_of(shards=1)
    lost = progress(plan, *(entry(slice_, Fact.DISPATCHED, n=1) for slice_ in plan.slices()))
    assert decided(lost, now=NOON + 3 * SECOND).queue == (slice_of(Tier.P0),)
    assert len(decided(lost, now=NOON + 60 * SECOND).queue) == 3


def test_slice_wider_than_the_whole_credit_is_queued_alone() -> None:
    wide = progress(plan_of(shards=8, width=4))
    queued_now = in_pool(decided(wide, credits={Pool.P0: Credit(slices=5, shards=1)}), Pool.P0)
    assert queued_now == [slice_of(Tier.P0, 0, 3)]


def test_narrow_slices_do_not_overtake_a_waiting_wide_one() -> None:
    running = progress(plan_of(seq=1, shards=1), entry(slice_of(Tier.P0), Fact.DISPATCHED, n=1))
    wide, narrow = (
        progress(plan_of(seq=2, shards=4, width=4)),
        progress(plan_of(seq=3, shards=1, opened_at=NOON + SECOND)),
    )
    assert in_pool(decided(running, wide, narrow, credits={Pool.P0: Credit(slices=9, shards=4)}), Pool.P0) == []


def test_bursts_take_turns_starting_with_the_oldest() -> None:
    large, small = progress(plan_of(seq=1, shards=9)), progress(plan_of(seq=2, shards=2, opened_at=NOON + SECOND))
    queued_now = in_pool(decided(large, small, credits={Pool.P0: Credit(slices=5, shards=99)}), Pool.P0)
    assert [slice_.burst.seq for slice_ in queued_now] == [1, 2, 1, 2, 1]


def test_burst_with_much_in_flight_yields_to_a_new_one() -> None:
    running = [entry(slice_of(Tier.P0, n), Fact.DISPATCHED, n=1) for n in range(4)]
    large, small = (
        progress(plan_of(seq=1, shards=9), *running),
        progress(plan_of(seq=2, shards=3, opened_at=NOON + SECOND)),
    )
    queued_now = in_pool(decided(large, small, credits={Pool.P0: Credit(slices=7, shards=99)}), Pool.P0)
    assert [slice_.burst.seq for slice_ in queued_now] == [2, 2, 2]


def test_alert_slice_waits_for_its_rows() -> None:
    plan = plan_of(shards=2, pushed=(Tier.P0,))
    assert in_pool(decided(progress(plan)), Pool.WEB) == []
    rows = entry(slice_of(Tier.P0, 1), Fact.DONE)
    for step in PUSH_STEPS:
        assert in_pool(decided(progress(plan, rows)), Pool(step)) == [slice_of(Tier.P0, 1, step=step)]


def with_rows_done(plan: Plan) -> BurstProgress:
    return progress(plan, *(entry(slice_, Fact.DONE) for slice_ in plan.slices() if slice_.step is Step.ROWS))


def test_p0_alerts_of_any_burst_come_first() -> None:
    large = with_rows_done(plan_of(seq=1, shards=9, pushed=(Tier.P1,)))
    late = with_rows_done(plan_of(seq=2, shards=1, pushed=(Tier.P0, Tier.P1), opened_at=NOON + SECOND))
    queued_now = in_pool(decided(large, late, credits={Pool.FCM: Credit(slices=3, shards=99)}), Pool.FCM)
    assert [(slice_.burst.seq, slice_.tier) for slice_ in queued_now] == [(2, Tier.P0), (1, Tier.P1), (1, Tier.P1)]


def test_alerts_of_a_large_burst_leave_reserved_credit_for_p0() -> None:
    large, vips = (
        with_rows_done(plan_of(seq=seq, shards=9, pushed=(tier,))) for seq, tier in ((1, Tier.P1), (2, Tier.P0))
    )
    credits = {Pool.FCM: Credit(slices=99, shards=7, reserved_shards=5)}
    assert len(in_pool(decided(large, credits=credits), Pool.FCM)) == 2
    assert [slice_.tier for slice_ in in_pool(decided(large, vips, credits=credits), Pool.FCM)] == [Tier.P0] * 7


def test_alerts_of_many_narrow_bursts_leave_reserved_credit_for_p0() -> None:
    narrow = {seq: with_rows_done(plan_of(seq=seq, shards=1, pushed=(Tier.P1,))) for seq in range(1, 99)}
    begun = [entry(slice_, Fact.DISPATCHED, n=1) for slice_ in in_pool(decided(*narrow.values()), Pool.FCM)]
    running = [narrow[dispatch.slice.burst.seq].with_entry(dispatch) for dispatch in begun]
    vips = with_rows_done(plan_of(seq=99, shards=1, pushed=(Tier.P0,)))
    assert [slice_.tier for slice_ in in_pool(decided(*running, vips), Pool.FCM)] == [Tier.P0]


def test_deferred_slice_uses_no_credit_until_its_wake_time() -> None:
    plan = plan_of(shards=1, pushed=(Tier.P0,))
    alerts = slice_of(Tier.P0, step=Step.FCM)
    waits = [entry(alerts, Fact.DISPATCHED, n=1), entry(alerts, Fact.DEFERRED, n=1, at=NOON + HOUR)]
    deferred = progress(
        plan, *(entry(slice_, Fact.DONE) for slice_ in plan.slices() if slice_.step is Step.ROWS), *waits
    )
    credits = {Pool.FCM: Credit(slices=1, shards=1)}
    second = with_rows_done(plan_of(seq=2, shards=1, pushed=(Tier.P0,)))
    assert [slice_.burst.seq for slice_ in in_pool(decided(deferred, second, credits=credits), Pool.FCM)] == [2]
    assert in_pool(decided(deferred, now=NOON + HOUR, credits=credits), Pool.FCM) == [alerts]


def test_paused_tier_is_parked_once_with_the_name_of_the_throttle() -> None:
    plan = plan_of(shards=2)
    decision = decided(progress(plan), limits=PAUSED)
    assert set(decision.park) == {(slice_of(Tier.P2, n), "t1") for n in (0, 1)}
    assert in_pool(decision, Pool.P2) == []
    assert len(decision.queue) == 4
    parked = progress(plan, *(entry(slice_, Fact.PARKED, note=by) for slice_, by in decision.park))
    assert decided(parked, limits=PAUSED).park == ()


def test_waiting_p2_is_parked_only_when_its_rate_is_spent() -> None:
    plan = plan_of(shards=2)
    assert decided(progress(plan), limits=SLOWED, deliveries_left=1e9).park == ()
    assert len(decided(progress(plan), limits=SLOWED, deliveries_left=0.0).park) == 2


def test_slowed_tier_is_queued_until_its_rate_is_spent() -> None:
    plan = plan_of(shards=4, followers=400_000)
    estimate = expected_deliveries(progress(plan), slice_of(Tier.P2))
    decision = decided(with_p1_done(plan), limits=SLOWED, deliveries_left=estimate + 1)
    assert (len(in_pool(decision, Pool.P2)), len(decision.park)) == (2, 2)


def test_expired_slices_are_released_from_a_throttled_tier() -> None:
    plan = plan_of(shards=3)
    late = NOON + 6 * HOUR
    decision = decided(progress(plan), now=late, limits=PAUSED)
    assert len(in_pool(decision, Pool.P2)) == 3
    assert decision.park == ()


def test_expired_slices_spend_no_rate_of_fresh_ones() -> None:
    late, fresh = progress(plan_of(seq=1)), with_p1_done(plan_of(seq=2, shards=1, opened_at=NOON + 6 * HOUR))
    decision = decided(late, fresh, now=NOON + 6 * HOUR, limits=SLOWED, deliveries_left=1.0)
    assert slice_of(Tier.P2, seq=2) in decision.queue


def test_expired_slices_are_released_within_the_credit_of_their_pool() -> None:
    decision = decided(progress(plan_of(shards=9)), now=NOON + 6 * HOUR, credits={Pool.P2: Credit(slices=2, shards=0)})
    assert len(in_pool(decision, Pool.P2)) == 2


def test_expired_slice_that_waits_for_credit_is_not_parked() -> None:
    decision = decided(progress(plan_of()), now=NOON + 6 * HOUR, limits=PAUSED, credits={Pool.P2: NO_CREDIT})
    assert (in_pool(decision, Pool.P2), decision.park) == ([], ())


def test_throttle_on_rows_parks_no_alerts() -> None:
    rows = entry(slice_of(Tier.P0), Fact.DONE)
    paused = {Tier.P0: TierLimit(rate=0.0, throttle_id="t1")}
    decision = decided(
        progress(plan_of(shards=1, pushed=(Tier.P0,)), rows),
        limits=paused,
        credits=dict.fromkeys(map(Pool, PUSH_STEPS), NO_CREDIT),
    )
    assert decision.park == ()


def test_backpressure_on_p2_does_not_affect_p0_and_p1() -> None:
    calm, pressed = decided(progress(plan_of())), decided(progress(plan_of()), credits={Pool.P2: NO_CREDIT})
    assert in_pool(pressed, Pool.P2) == []
    assert [in_pool(pressed, p) for p in (Pool.P0, Pool.P1)] == [in_pool(calm, p) for p in (Pool.P0, Pool.P1)]


def test_slice_expires_after_the_term_of_its_pool() -> None:
    late = progress(plan_of())
    assert [is_expired(late, slice_of(t), NOON + 2 * HOUR) for t in TIERS] == [True, True, False]
    assert not is_expired(late, slice_of(Tier.P1), NOON + 2 * HOUR - timedelta(milliseconds=1))


def test_alerts_expire_after_a_day() -> None:
    rows = entry(slice_of(Tier.P0), Fact.DONE, at=NOON + HOUR)
    rows_done, alerts = progress(plan_of(shards=1, pushed=(Tier.P0,)), rows), slice_of(Tier.P0, step=Step.APNS)
    assert not is_expired(rows_done, alerts, NOON + 24 * HOUR - timedelta(milliseconds=1))
    assert is_expired(rows_done, alerts, NOON + 24 * HOUR)


def test_estimate_uses_followers_until_a_slice_has_ended() -> None:
    plan = plan_of(shards=4, followers=400_000)
    assert expected_deliveries(progress(plan), slice_of(Tier.P2)) == 100_000 * EXPECTED_SHARE[Tier.P2]
    known = progress(
        plan, entry(slice_of(Tier.P2, 1), Fact.DONE, people=7), entry(slice_of(Tier.P1, 1), Fact.DONE, people=9)
    )
    assert expected_deliveries(known, slice_of(Tier.P2)) == 7


def test_estimate_of_empty_audience_is_zero() -> None:
    empty = progress(plan_of(), entry(slice_of(Tier.P2, 1), Fact.DONE, people=0))
    assert expected_deliveries(empty, slice_of(Tier.P2)) == 0
    assert expected_deliveries(progress(plan_of(shards=0, followers=0)), slice_of(Tier.P2)) == 0


def test_dead_slice_does_not_change_the_estimate() -> None:
    plan = plan_of(shards=4, followers=400_000)
    dead = progress(plan, entry(slice_of(Tier.P2, 1), Fact.DEAD))
    assert expected_deliveries(dead, slice_of(Tier.P2)) == expected_deliveries(progress(plan), slice_of(Tier.P2))


def test_claim_of_a_worker_uses_credit_of_its_pool() -> None:
    plan = plan_of(shards=2)
    queued = [entry(slice_of(Tier.P2, 1), Fact.DISPATCHED, n=1)]
    claimed = burst_progress(plan, queued, [claim(slice_of(Tier.P2, 1), at=NOON, until=NOON + 900 * SECOND)])
    decision = decided(claimed, now=NOON + 300 * SECOND, credits={Pool.P2: Credit(slices=1, shards=9)})
    assert in_pool(decision, Pool.P2) == []
