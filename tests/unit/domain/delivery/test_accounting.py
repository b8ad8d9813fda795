"""Delivery accounting: where every expected recipient is."""

from datetime import timedelta

from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.recipient_totals_and_progress import RecipientTotals, recipient_totals
from notifier.domain.delivery.slice_and_pool import Step
from tests.support.domain_examples import NOON, entry, plan_of, slice_of, tally

TALLIES = [tally(0, p0=1, p1=20, p2=300, suppressed=4), tally(1, p0=2, p1=30, p2=500, suppressed=1)]


def totals_of(*entries: LedgerEntry, counted: int = 2, later: timedelta = timedelta(0)) -> RecipientTotals:
    plan = plan_of(shards=2, pushed=(Tier.P0,))
    return recipient_totals(burst_progress(plan, entries, ()), TALLIES[:counted], throttle_ids=["t1"], now=NOON + later)


def test_no_recipient_is_expected_before_the_first_snapshot() -> None:
    assert (totals_of(counted=0).expected, totals_of(counted=0).is_balanced) == (0, True)


def test_slices_not_yet_begun_are_in_flight() -> None:
    assert totals_of() == RecipientTotals(
        expected=858, delivered=0, suppressed=5, parked=0, pulled=0, dead=0, in_flight=853
    )


def test_recipients_are_counted_by_the_facts_of_their_slices() -> None:
    result = totals_of(
        entry(slice_of(Tier.P0, 0), Fact.DONE, people=1),
        entry(slice_of(Tier.P0, 1), Fact.DISPATCHED, n=1),
        entry(slice_of(Tier.P1, 0), Fact.PULLED, people=20),
        entry(slice_of(Tier.P1, 1), Fact.DEAD),
        entry(slice_of(Tier.P2, 0), Fact.PARKED, note="t1"),
        entry(slice_of(Tier.P2, 1), Fact.PARKED, note="lifted"),
    )
    assert result == RecipientTotals(
        expected=858, delivered=1, suppressed=5, parked=300, pulled=20, dead=30, in_flight=502
    )
    assert result.is_balanced


def test_totals_expire_with_their_snapshots() -> None:
    assert not totals_of(later=SNAPSHOT_KEPT_FOR - timedelta(seconds=1)).expired
    assert totals_of(counted=0, later=SNAPSHOT_KEPT_FOR).expired


def test_alerts_do_not_count_as_deliveries() -> None:
    assert totals_of(entry(slice_of(Tier.P0, 0, step=Step.FCM), Fact.DONE, people=1)).delivered == 0


def test_difference_of_one_recipient_is_detected() -> None:
    assert not totals_of(entry(slice_of(Tier.P1, 0), Fact.DONE, people=19)).is_balanced
    assert not totals_of(entry(slice_of(Tier.P1, 0), Fact.PULLED, people=21)).is_balanced
