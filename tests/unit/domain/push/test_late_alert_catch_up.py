"""Catch-up: late slices, those that may still send, and what each summary covers."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.domain.audience.bitmap import Bits, from_offsets, offsets
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER, PUSH_LIFETIME
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, burst_progress, is_late
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, PUSH_STEPS, Pool, Slice, Step
from notifier.domain.ids import Platform
from notifier.domain.push.late_alert_catch_up import (
    NEWER_DUE_WITHIN,
    LateAudience,
    members_to_alert_in,
    recheck_after,
    sends_alerts,
    shards_due_soon,
    unsent_shards,
)
from notifier.domain.push.send_log import OlderBursts, SendBatch
from tests.support.domain_examples import HOUR, NOON, SECOND, burst, entry, plan_of, slice_of

FCM = slice_of(Tier.P1, 2, step=Step.FCM)


def progress(*entries: LedgerEntry) -> BurstProgress:
    return burst_progress(plan_of(pushed=(Tier.P0, Tier.P1)), entries, ())


def rows_done(alerts: Slice) -> LedgerEntry:
    return entry(alerts.rows_slice, Fact.DONE)


def test_burst_is_late_after_a_quarter_of_an_hour() -> None:
    assert not is_late(burst(), NOON + LATE_AFTER)
    assert is_late(burst(), NOON + LATE_AFTER + SECOND)


def test_burst_without_push_verdict_sends_no_alerts() -> None:
    assert sends_alerts(burst())
    assert not sends_alerts(burst(verdict=Verdict.ROW))


def test_alert_slices_expire_after_the_push_lifetime() -> None:
    assert {POOL_TIMINGS[Pool(step)].expires_after for step in PUSH_STEPS} == {PUSH_LIFETIME}


def test_recheck_pauses_grow_to_a_minute() -> None:
    pauses = [recheck_after(waited) for waited in range(20)]
    assert pauses[:4] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
    assert pauses == sorted(pauses)
    assert pauses[-1] == timedelta(minutes=1) < NEWER_DUE_WITHIN


def test_slice_is_due_from_the_end_of_its_rows_to_its_own_end() -> None:
    for done, due in [((), {}), ((rows_done(FCM),), {Tier.P1: {2}})]:
        assert shards_due_soon(progress(*done), Platform.FCM, NOON) == due
    for fact in (Fact.DONE, Fact.PULLED, Fact.DEAD):
        assert shards_due_soon(progress(rows_done(FCM), entry(FCM, fact)), Platform.FCM, NOON) == {}
    assert shards_due_soon(progress(rows_done(FCM)), Platform.WEB, NOON) == {Tier.P1: {2}}


def test_deferred_slice_is_due_shortly_before_its_wake_time() -> None:
    waits = entry(FCM, Fact.DEFERRED, n=1, at=NOON + HOUR)
    at = NOON + HOUR - NEWER_DUE_WITHIN
    assert shards_due_soon(progress(rows_done(FCM), waits), Platform.FCM, at - SECOND) == {}
    assert shards_due_soon(progress(rows_done(FCM), waits), Platform.FCM, at) == {Tier.P1: {2}}


def test_provider_without_slices_has_none_due_or_unfinished() -> None:
    plan = plan_of(pushed=())
    without_alerts = burst_progress(plan, [rows_done(FCM)], ())
    assert (shards_due_soon(without_alerts, Platform.FCM, NOON), unsent_shards(without_alerts, Platform.FCM)) == (
        {},
        {},
    )


@pytest.mark.parametrize(("fact", "is_unfinished"), [(Fact.DONE, False), (Fact.PULLED, False), (Fact.DEAD, True)])
def test_slice_is_unfinished_until_done_or_pulled(fact: Fact, is_unfinished: bool) -> None:
    all_others = {Tier.P0: {0, 1, 2, 3}, Tier.P1: {0, 1, 3}}
    assert unsent_shards(progress(), Platform.FCM) == {**all_others, Tier.P1: {0, 1, 2, 3}}
    assert unsent_shards(progress(entry(FCM, fact)), Platform.FCM)[Tier.P1] == (
        {0, 1, 2, 3} if is_unfinished else {0, 1, 3}
    )


def test_members_alerted_by_slices_follow_the_snapshot_tiers() -> None:
    tiers = {Tier.P0: from_offsets([1]), Tier.P1: from_offsets([2, 3]), Tier.P2: from_offsets([4])}
    snapshot = AudienceSnapshot(
        shard=2, opened_at=NOON, tiers=tiers, to_alert=from_offsets([1, 2, 4, 5]), dormant_count=1, suppressed_counts={}
    )
    assert people(members_to_alert_in(snapshot, {Tier.P0: {2}, Tier.P1: {1}})) == {1}
    assert people(members_to_alert_in(snapshot, {Tier.P1: {2}, Tier.DORMANT: {2}})) == {2, 5}
    assert people(members_to_alert_in(snapshot, {})) == set()


def people(bits: Bits) -> set[int]:
    return {int(place) for place in offsets(bits)}


def bits(*places: int) -> Bits:
    return from_offsets(places)


def by_covered(covers: Mapping[OlderBursts, Bits]) -> dict[OlderBursts, set[int]]:
    return {older_bursts: people(covered) for older_bursts, covered in covers.items()}


def summary(older_bursts: OlderBursts, *places: int) -> SendBatch:
    return SendBatch(number=0, at=NOON, members=bits(*places), summaries={older_bursts: bits(*places)})


def test_summary_covers_the_bursts_still_due_to_each_member() -> None:
    audience = LateAudience.of_members(bits(1, 2, 3))
    audience = audience.cover(7, bits(1, 2)).cover(5, bits(1, 9)).cover(4, bits(1, 2))
    assert by_covered(audience.covers) == {(4, 5, 7): {1}, (4, 7): {2}, (): {3}}


def test_member_summarized_by_newer_burst_is_collapsed_or_deferred() -> None:
    audience = LateAudience.of_members(bits(1, 2, 3)).with_sibling_batches([summary((5, 6), 1, 9), summary((5,), 2)])
    assert people(audience.already_covered(6)) == {1}
    audience = audience.collapse(audience.already_covered(6)).defer(bits(1, 2))
    assert (people(audience.collapsed), people(audience.deferred), people(audience.remaining)) == ({1}, {2}, {3})
    assert by_covered(audience.covers) == {(): {3}}


def test_members_covered_by_another_summary_are_known() -> None:
    audience = LateAudience.of_members(bits(1, 2)).with_sibling_batches([summary((3, 4), 1)])
    assert [people(audience.already_covered(seq)) for seq in (3, 4, 5)] == [{1}, {1}, set()]
