"""What is late: which slices are waited for, which may still ring, and what of all of it one alert tells whom."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.domain.audience.bitmap import Bits, from_offsets, offsets
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, burst_progress, is_late
from notifier.domain.delivery.slice import POOL_TERMS, PUSH_STEPS, Pool, Slice, Step
from notifier.domain.ids import Platform
from notifier.domain.push.catch_up import (
    NEWER_DUE_WITHIN,
    LateAudience,
    alerted_in,
    due_soon,
    recheck_after,
    sends_alerts,
    unfinished,
)
from notifier.domain.push.send_log import OlderBursts, SendWindow
from notifier.domain.timing import LATE_AFTER, PUSH_LIFETIME
from tests.support.examples import HOUR, NOON, SECOND, burst, entry, plan_of, slice_of

FCM = slice_of(Tier.P1, 2, step=Step.FCM)


def of(*entries: LedgerEntry) -> BurstProgress:
    return burst_progress(plan_of(pushed=(Tier.P0, Tier.P1)), entries, ())


def rows_done(phones: Slice) -> LedgerEntry:
    return entry(phones.rows, Fact.DONE)


def test_after_a_quarter_of_an_hour_it_is_late() -> None:
    assert not is_late(burst(), NOON + LATE_AFTER)
    assert is_late(burst(), NOON + LATE_AFTER + SECOND)


def test_what_never_rings_is_known_from_the_burst() -> None:
    assert sends_alerts(burst())
    assert not sends_alerts(burst(verdict=Verdict.ROW))


def test_nobody_is_told_of_a_day_that_no_slice_outlives() -> None:
    assert {POOL_TERMS[Pool(step)].expires_after for step in PUSH_STEPS} == {PUSH_LIFETIME}


def test_pauses_grow_to_a_minute_and_are_no_longer_than_one_is_waited_for() -> None:
    pauses = [recheck_after(waited) for waited in range(20)]
    assert pauses[:4] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
    assert pauses == sorted(pauses)
    assert pauses[-1] == timedelta(minutes=1) < NEWER_DUE_WITHIN


def test_a_slice_is_coming_once_its_rows_stand_until_it_has_ended() -> None:
    for done, found in [((), {}), ((rows_done(FCM),), {Tier.P1: {2}})]:
        assert due_soon(of(*done), Platform.FCM, NOON) == found
    for fact in (Fact.DONE, Fact.PULLED, Fact.DEAD):
        assert due_soon(of(rows_done(FCM), entry(FCM, fact)), Platform.FCM, NOON) == {}
    assert due_soon(of(rows_done(FCM)), Platform.WEB, NOON) == {Tier.P1: {2}}


def test_a_slice_that_waits_is_coming_if_it_goes_on_soon() -> None:
    waits = entry(FCM, Fact.WAITS, n=1, at=NOON + HOUR)
    at = NOON + HOUR - NEWER_DUE_WITHIN
    assert due_soon(of(rows_done(FCM), waits), Platform.FCM, at - SECOND) == {}
    assert due_soon(of(rows_done(FCM), waits), Platform.FCM, at) == {Tier.P1: {2}}


def test_a_provider_without_slices_has_none_that_come_or_owe() -> None:
    plan = plan_of(pushed=())
    found = burst_progress(plan, [rows_done(FCM)], ())
    assert (due_soon(found, Platform.FCM, NOON), unfinished(found, Platform.FCM)) == ({}, {})


@pytest.mark.parametrize(("fact", "owes"), [(Fact.DONE, False), (Fact.PULLED, False), (Fact.DEAD, True)])
def test_a_slice_may_still_ring_until_it_has_ended_and_of_one_that_died_others_tell(fact: Fact, owes: bool) -> None:
    others = {Tier.P0: {0, 1, 2, 3}, Tier.P1: {0, 1, 3}}
    assert unfinished(of(), Platform.FCM) == {**others, Tier.P1: {0, 1, 2, 3}}
    assert unfinished(of(entry(FCM, fact)), Platform.FCM)[Tier.P1] == ({0, 1, 2, 3} if owes else {0, 1, 3})


def test_whom_slices_alert_is_by_the_tier_in_which_people_were() -> None:
    tiers = {Tier.P0: from_offsets([1]), Tier.P1: from_offsets([2, 3]), Tier.P2: from_offsets([4])}
    seal = AudienceSnapshot(
        shard=2, opened_at=NOON, tiers=tiers, to_alert=from_offsets([1, 2, 4, 5]), dormant=1, suppressed={}
    )
    assert people(alerted_in(seal, {Tier.P0: {2}, Tier.P1: {1}})) == {1}
    assert people(alerted_in(seal, {Tier.P1: {2}, Tier.DORMANT: {2}})) == {2, 5}
    assert people(alerted_in(seal, {})) == set()


def people(bits: Bits) -> set[int]:
    return {int(place) for place in offsets(bits)}


def bits(*places: int) -> Bits:
    return from_offsets(places)


def told(tells: Mapping[OlderBursts, Bits]) -> dict[OlderBursts, set[int]]:
    return {olders: people(some) for olders, some in tells.items()}


def summary(olders: OlderBursts, *places: int) -> SendWindow:
    return SendWindow(number=0, at=NOON, members=bits(*places), summaries={olders: bits(*places)})


def test_each_is_told_of_what_was_still_to_come_to_them() -> None:
    audience = LateAudience.of_members(bits(1, 2, 3))
    audience = audience.cover(7, bits(1, 2)).cover(5, bits(1, 9)).cover(4, bits(1, 2))
    assert told(audience.covers) == {(4, 5, 7): {1}, (4, 7): {2}, (): {3}}


def test_who_was_told_by_a_newer_one_is_left_out_and_who_may_be_is_held() -> None:
    audience = LateAudience.of_members(bits(1, 2, 3)).with_sibling_windows([summary((5, 6), 1, 9), summary((5,), 2)])
    assert people(audience.already_covered(6)) == {1}
    audience = audience.collapse(audience.already_covered(6)).defer(bits(1, 2))
    assert (people(audience.collapsed), people(audience.deferred), people(audience.remaining)) == ({1}, {2}, {3})
    assert told(audience.covers) == {(): {3}}


def test_nobody_is_told_what_another_alert_told() -> None:
    audience = LateAudience.of_members(bits(1, 2)).with_sibling_windows([summary((3, 4), 1)])
    assert [people(audience.already_covered(seq)) for seq in (3, 4, 5)] == [{1}, {1}, set()]
