"""What the dispatcher queues next, case by case."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import EXPECTED_SHARE, MAX_SHARDS_PER_SLICE, Plan
from notifier.domain.delivery.scheduling import (
    MAX_YIELD_TIME,
    P0_LATE_AFTER,
    POOL_CREDITS,
    Credit,
    DispatchDecision,
    decide,
    expected_people,
    is_expired,
)
from notifier.domain.delivery.slice import PUSH_STEPS, Pool, Slice, Step
from notifier.domain.delivery.throttle import TierLimit
from tests.support.examples import HOUR, NOON, SECOND, claim, entry, plan_of, slice_of

PAUSED = {Tier.P2: TierLimit(rate=0.0, throttle_id="t1")}
P1_SLOWED = {Tier.P1: TierLimit(rate=1_000.0, throttle_id="t1")}
SLOWED = {Tier.P2: TierLimit(rate=1_000.0, throttle_id="t1")}
NO_CREDIT = Credit(slices=0, shards=0)


def of(plan: Plan, *entries: LedgerEntry) -> BurstProgress:
    return burst_progress(plan, entries, ())


def chosen(
    *accounts: BurstProgress,
    now: datetime = NOON,
    credits: Mapping[Pool, Credit] | None = None,
    allowances: Mapping[Tier, TierLimit] | None = None,
    left: float = 0.0,
) -> DispatchDecision:
    return decide(
        accounts,
        now=now,
        credits={**POOL_CREDITS, **(credits or {})},
        limits=allowances or {},
        people_left={Tier.P2: left},
    )


def in_pool(decision: DispatchDecision, pool: Pool) -> list[Slice]:
    return [one for one in decision.queue if one.pool is pool]


def led(plan: Plan) -> BurstProgress:
    """Its P1 has ended, so that its P2 gives way no longer."""
    return of(plan, *(entry(one, Fact.DONE) for one in plan.slices() if one.pool is Pool.P1))


def test_everything_is_queued_while_credit_lasts_and_p2_when_all_of_p1_has_led() -> None:
    plan = plan_of(shards=2)
    first = chosen(of(plan)).queue
    assert {one.pool for one in first} == {Pool.P0, Pool.P1}
    second = chosen(of(plan, *(entry(one, Fact.DISPATCHED, n=1) for one in first))).queue
    assert {one.pool for one in second} == {Pool.P2}
    assert {*first, *second} == set(plan.slices())


def test_p2_gives_way_while_one_slice_of_p1_has_not_led() -> None:
    plan = plan_of(shards=3)
    some = [entry(slice_of(Tier.P1, 2), Fact.DISPATCHED, n=1), entry(slice_of(Tier.P1, 1), Fact.DONE)]
    assert in_pool(chosen(of(plan, *some), credits={Pool.P1: NO_CREDIT}), Pool.P2) == []
    rest = entry(slice_of(Tier.P1, 0), Fact.DEAD)
    assert len(in_pool(chosen(of(plan, *some, rest)), Pool.P2)) == 3


def test_p2_gives_way_again_while_a_slice_of_p1_that_was_lost_waits() -> None:
    plan = plan_of(shards=1)
    lost = of(plan, entry(slice_of(Tier.P1), Fact.DISPATCHED, n=1))
    later = NOON + 5 * SECOND
    assert {one.pool for one in chosen(lost, now=later).queue} == {Pool.P0, Pool.P1}


def test_p2_gives_way_to_no_p1_for_long_nor_to_one_that_a_throttle_holds_nor_to_another_bursts() -> None:
    plan = plan_of(shards=2)
    assert (
        len(in_pool(chosen(of(plan), now=NOON + MAX_YIELD_TIME[Pool.P2], credits={Pool.P1: NO_CREDIT}), Pool.P2)) == 2
    )
    assert len(in_pool(chosen(of(plan), allowances=P1_SLOWED), Pool.P2)) == 2
    other = plan_of(seq=2, shards=1)
    assert [one.burst for one in in_pool(chosen(of(plan), led(other)), Pool.P2)] == [other.burst]


def test_p1_and_p2_of_all_give_way_while_anybody_s_p0_is_late() -> None:
    others, late = led(plan_of(seq=2, shards=1, opened_at=NOON + P0_LATE_AFTER)), of(plan_of(shards=1))
    soon = chosen(others, late, now=NOON + P0_LATE_AFTER - SECOND / 10)
    assert {Pool.P1, Pool.P2} <= {one.pool for one in soon.queue}
    assert {one.pool for one in chosen(others, late, now=NOON + P0_LATE_AFTER).queue} == {Pool.P0}
    p0 = entry(slice_of(Tier.P0), Fact.DONE)
    stands = chosen(others, of(late.plan, p0), now=NOON + P0_LATE_AFTER)
    assert {(one.burst.seq, one.pool) for one in stands.queue} == {(1, Pool.P1), (2, Pool.P0), (2, Pool.P2)}


def test_p1_gives_way_for_two_seconds_and_to_no_p0_of_a_large_burst_nor_to_one_held_or_late_for_long() -> None:
    late, paused = of(plan_of(shards=1)), {Tier.P0: TierLimit(rate=0.0, throttle_id="t1")}
    assert in_pool(chosen(late, now=NOON + MAX_YIELD_TIME[Pool.P1] - SECOND / 10), Pool.P1) == []
    assert in_pool(chosen(late, now=NOON + MAX_YIELD_TIME[Pool.P1]), Pool.P1) == [slice_of(Tier.P1)]
    assert in_pool(chosen(late, now=NOON + P0_LATE_AFTER, allowances=paused), Pool.P1) == [slice_of(Tier.P1)]
    large = of(plan_of(shards=MAX_SHARDS_PER_SLICE[Tier.P0] + 1))
    assert in_pool(chosen(large, now=NOON + P0_LATE_AFTER), Pool.P1)
    new = of(plan_of(seq=2, shards=1, opened_at=NOON + MAX_YIELD_TIME[Pool.P2]))
    assert len(in_pool(chosen(late, new, now=NOON + MAX_YIELD_TIME[Pool.P2]), Pool.P1)) == 2


def test_a_burst_that_a_clock_set_back_has_yet_to_open_gives_way_to_nobody() -> None:
    late, ahead = of(plan_of(shards=1)), of(plan_of(seq=2, shards=1, opened_at=NOON + 86_400 * SECOND))
    found = chosen(late, ahead, now=NOON + P0_LATE_AFTER).queue
    assert {(one.burst.seq, one.pool) for one in found if one.pool is not Pool.P0} == {(2, Pool.P1), (2, Pool.P2)}


def test_what_is_in_flight_uses_up_credit_and_is_not_queued_again() -> None:
    plan = plan_of(shards=4)
    queued = [entry(slice_of(Tier.P1, n), Fact.DISPATCHED, n=1) for n in (3, 2)]
    found = in_pool(chosen(of(plan, *queued), credits={Pool.P1: Credit(slices=3, shards=9)}), Pool.P1)
    assert found == [slice_of(Tier.P1, 1)]


def test_what_has_ended_is_never_queued() -> None:
    plan = plan_of(shards=1)
    ends = (Fact.DONE, Fact.PULLED, Fact.DEAD)
    assert chosen(of(plan, *(entry(p, f) for p, f in zip(plan.slices(), ends, strict=True)))).queue == ()


def test_a_lost_dispatch_is_queued_again_after_its_deadline() -> None:
    plan = plan_of(shards=1)
    lost = of(plan, *(entry(one, Fact.DISPATCHED, n=1) for one in plan.slices()))
    assert chosen(lost, now=NOON + 3 * SECOND).queue == (slice_of(Tier.P0),)
    assert len(chosen(lost, now=NOON + 60 * SECOND).queue) == 3


def test_a_slice_wider_than_the_whole_credit_goes_alone() -> None:
    wide = of(plan_of(shards=8, width=4))
    found = in_pool(chosen(wide, credits={Pool.P0: Credit(slices=5, shards=1)}), Pool.P0)
    assert found == [slice_of(Tier.P0, 0, 3)]


def test_narrow_slices_don_t_pass_a_wide_one_that_waits_for_room() -> None:
    running = of(plan_of(seq=1, shards=1), entry(slice_of(Tier.P0), Fact.DISPATCHED, n=1))
    wide, narrow = of(plan_of(seq=2, shards=4, width=4)), of(plan_of(seq=3, shards=1, opened_at=NOON + SECOND))
    assert in_pool(chosen(running, wide, narrow, credits={Pool.P0: Credit(slices=9, shards=4)}), Pool.P0) == []


def test_bursts_take_turns_the_older_first() -> None:
    large, small = of(plan_of(seq=1, shards=9)), of(plan_of(seq=2, shards=2, opened_at=NOON + SECOND))
    found = in_pool(chosen(large, small, credits={Pool.P0: Credit(slices=5, shards=99)}), Pool.P0)
    assert [one.burst.seq for one in found] == [1, 2, 1, 2, 1]


def test_a_burst_with_much_in_flight_lets_a_new_one_go_first() -> None:
    running = [entry(slice_of(Tier.P0, n), Fact.DISPATCHED, n=1) for n in range(4)]
    large, small = of(plan_of(seq=1, shards=9), *running), of(plan_of(seq=2, shards=3, opened_at=NOON + SECOND))
    found = in_pool(chosen(large, small, credits={Pool.P0: Credit(slices=7, shards=99)}), Pool.P0)
    assert [one.burst.seq for one in found] == [2, 2, 2]


def test_phones_wait_until_the_rows_of_the_same_slice_stand() -> None:
    plan = plan_of(shards=2, pushed=(Tier.P0,))
    assert in_pool(chosen(of(plan)), Pool.WEB) == []
    rows = entry(slice_of(Tier.P0, 1), Fact.DONE)
    for step in PUSH_STEPS:
        assert in_pool(chosen(of(plan, rows)), Pool(step)) == [slice_of(Tier.P0, 1, step=step)]


def with_rows(plan: Plan) -> BurstProgress:
    return of(plan, *(entry(one, Fact.DONE) for one in plan.slices() if one.step is Step.ROWS))


def test_p0_s_phones_come_before_everybody_else_s_whosever_burst() -> None:
    crowd = with_rows(plan_of(seq=1, shards=9, pushed=(Tier.P1,)))
    late = with_rows(plan_of(seq=2, shards=1, pushed=(Tier.P0, Tier.P1), opened_at=NOON + SECOND))
    found = in_pool(chosen(crowd, late, credits={Pool.FCM: Credit(slices=3, shards=99)}), Pool.FCM)
    assert [(one.burst.seq, one.tier) for one in found] == [(2, Tier.P0), (1, Tier.P1), (1, Tier.P1)]


def test_a_crowd_s_phones_leave_room_for_p0() -> None:
    crowd, vips = (with_rows(plan_of(seq=seq, shards=9, pushed=(tier,))) for seq, tier in ((1, Tier.P1), (2, Tier.P0)))
    credits = {Pool.FCM: Credit(slices=99, shards=7, reserved_shards=5)}
    assert len(in_pool(chosen(crowd, credits=credits), Pool.FCM)) == 2
    assert [one.tier for one in in_pool(chosen(crowd, vips, credits=credits), Pool.FCM)] == [Tier.P0] * 7


def test_a_crowd_of_narrow_slices_leaves_room_for_p0() -> None:
    crowd = {seq: with_rows(plan_of(seq=seq, shards=1, pushed=(Tier.P1,))) for seq in range(1, 99)}
    begun = [entry(one, Fact.DISPATCHED, n=1) for one in in_pool(chosen(*crowd.values()), Pool.FCM)]
    running = [crowd[one.slice.burst.seq].with_entry(one) for one in begun]
    vips = with_rows(plan_of(seq=99, shards=1, pushed=(Tier.P0,)))
    assert [one.tier for one in in_pool(chosen(*running, vips), Pool.FCM)] == [Tier.P0]


def test_what_waits_for_a_moment_uses_up_no_credit_and_is_queued_when_that_has_come() -> None:
    plan = plan_of(shards=1, pushed=(Tier.P0,))
    phones = slice_of(Tier.P0, step=Step.FCM)
    waits = [entry(phones, Fact.DISPATCHED, n=1), entry(phones, Fact.WAITS, n=1, at=NOON + HOUR)]
    asleep = of(plan, *(entry(one, Fact.DONE) for one in plan.slices() if one.step is Step.ROWS), *waits)
    credits = {Pool.FCM: Credit(slices=1, shards=1)}
    other = with_rows(plan_of(seq=2, shards=1, pushed=(Tier.P0,)))
    assert [one.burst.seq for one in in_pool(chosen(asleep, other, credits=credits), Pool.FCM)] == [2]
    assert in_pool(chosen(asleep, now=NOON + HOUR, credits=credits), Pool.FCM) == [phones]


def test_a_paused_tier_is_parked_once_under_the_throttle_s_name() -> None:
    plan = plan_of(shards=2)
    found = chosen(of(plan), allowances=PAUSED)
    assert set(found.park) == {(slice_of(Tier.P2, n), "t1") for n in (0, 1)}
    assert in_pool(found, Pool.P2) == []
    assert len(found.queue) == 4
    parked = of(plan, *(entry(one, Fact.PARKED, note=by) for one, by in found.park))
    assert chosen(parked, allowances=PAUSED).park == ()


def test_p2_that_gives_way_is_parked_by_a_pause_and_not_by_a_rate_that_would_let_it_go() -> None:
    plan = plan_of(shards=2)
    assert chosen(of(plan), allowances=SLOWED, left=1e9).park == ()
    assert len(chosen(of(plan), allowances=SLOWED, left=0.0).park) == 2


def test_a_slowed_tier_goes_on_until_its_rate_is_spent() -> None:
    plan = plan_of(shards=4, followers=400_000)
    guess = expected_people(of(plan), slice_of(Tier.P2))
    found = chosen(led(plan), allowances=SLOWED, left=guess + 1)
    assert (len(in_pool(found, Pool.P2)), len(found.park)) == (2, 2)


def test_what_is_past_its_worth_is_released_whatever_holds_its_tier() -> None:
    plan = plan_of(shards=3)
    late = NOON + 6 * HOUR
    found = chosen(of(plan), now=late, allowances=PAUSED)
    assert len(in_pool(found, Pool.P2)) == 3
    assert found.park == ()


def test_the_release_of_the_late_spends_nothing_of_the_rate_of_the_others() -> None:
    late, fresh = of(plan_of(seq=1)), led(plan_of(seq=2, shards=1, opened_at=NOON + 6 * HOUR))
    found = chosen(late, fresh, now=NOON + 6 * HOUR, allowances=SLOWED, left=1.0)
    assert slice_of(Tier.P2, seq=2) in found.queue


def test_the_release_of_the_late_stays_within_the_slices_of_its_pool() -> None:
    found = chosen(of(plan_of(shards=9)), now=NOON + 6 * HOUR, credits={Pool.P2: Credit(slices=2, shards=0)})
    assert len(in_pool(found, Pool.P2)) == 2


def test_what_is_past_its_worth_and_waits_for_credit_is_held_by_no_throttle() -> None:
    found = chosen(of(plan_of()), now=NOON + 6 * HOUR, allowances=PAUSED, credits={Pool.P2: NO_CREDIT})
    assert (in_pool(found, Pool.P2), found.park) == ([], ())


def test_a_throttle_on_rows_parks_no_phones() -> None:
    rows = entry(slice_of(Tier.P0), Fact.DONE)
    paused = {Tier.P0: TierLimit(rate=0.0, throttle_id="t1")}
    found = chosen(
        of(plan_of(shards=1, pushed=(Tier.P0,)), rows),
        allowances=paused,
        credits=dict.fromkeys(map(Pool, PUSH_STEPS), NO_CREDIT),
    )
    assert found.park == ()


def test_no_pressure_on_p2_touches_the_others() -> None:
    calm, pressed = chosen(of(plan_of())), chosen(of(plan_of()), credits={Pool.P2: NO_CREDIT})
    assert in_pool(pressed, Pool.P2) == []
    assert [in_pool(pressed, p) for p in (Pool.P0, Pool.P1)] == [in_pool(calm, p) for p in (Pool.P0, Pool.P1)]


def test_a_slice_is_worth_its_pool_s_term_from_the_opening() -> None:
    late = of(plan_of())
    assert [is_expired(late, slice_of(t), NOON + 2 * HOUR) for t in TIERS] == [True, True, False]
    assert not is_expired(late, slice_of(Tier.P1), NOON + 2 * HOUR - timedelta(milliseconds=1))


def test_phones_are_worth_a_day() -> None:
    rows = entry(slice_of(Tier.P0), Fact.DONE, at=NOON + HOUR)
    parked, phones = of(plan_of(shards=1, pushed=(Tier.P0,)), rows), slice_of(Tier.P0, step=Step.APNS)
    assert not is_expired(parked, phones, NOON + 24 * HOUR - timedelta(milliseconds=1))
    assert is_expired(parked, phones, NOON + 24 * HOUR)


def test_the_guess_follows_the_followers_until_a_slice_has_ended() -> None:
    plan = plan_of(shards=4, followers=400_000)
    assert expected_people(of(plan), slice_of(Tier.P2)) == 100_000 * EXPECTED_SHARE[Tier.P2]
    known = of(plan, entry(slice_of(Tier.P2, 1), Fact.DONE, people=7), entry(slice_of(Tier.P1, 1), Fact.DONE, people=9))
    assert expected_people(known, slice_of(Tier.P2)) == 7


def test_nobody_reached_and_nobody_following_are_no_division_by_zero() -> None:
    empty = of(plan_of(), entry(slice_of(Tier.P2, 1), Fact.DONE, people=0))
    assert expected_people(empty, slice_of(Tier.P2)) == 0
    assert expected_people(of(plan_of(shards=0, followers=0)), slice_of(Tier.P2)) == 0


def test_the_dead_say_nothing_about_how_many_there_are() -> None:
    plan = plan_of(shards=4, followers=400_000)
    dead = of(plan, entry(slice_of(Tier.P2, 1), Fact.DEAD))
    assert expected_people(dead, slice_of(Tier.P2)) == expected_people(of(plan), slice_of(Tier.P2))


def test_a_worker_s_claim_counts_against_the_credit_of_its_pool() -> None:
    plan = plan_of(shards=2)
    queued = [entry(slice_of(Tier.P2, 1), Fact.DISPATCHED, n=1)]
    held = burst_progress(plan, queued, [claim(slice_of(Tier.P2, 1), at=NOON, until=NOON + 900 * SECOND)])
    found = chosen(held, now=NOON + 300 * SECOND, credits={Pool.P2: Credit(slices=1, shards=9)})
    assert in_pool(found, Pool.P2) == []
