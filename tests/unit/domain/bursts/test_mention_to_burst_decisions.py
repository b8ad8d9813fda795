"""Sequence head: which burst a mention joins, redelivery, and late bursts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.sequencer import (
    MAX_OPENING_LEAD,
    MIN_OPENING_GAP,
    VISIBILITY_DEADLINE,
    Head,
    advance,
    after_publishing,
    with_late_bursts_restamped,
)
from notifier.domain.ids import POLICIES, UserId
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from tests.support.domain_examples import (
    ADA,
    BOB,
    EVE,
    HOUR,
    LANE,
    MINUTE,
    NOON,
    OF_NOVA,
    SECOND,
    SELF_NOVA,
    advanced,
    mention,
    numbered,
)

FRESH = Head.empty(OF_NOVA)
OFF = timedelta(0)
SMALL = 1_000
LATE = NOON + VISIBILITY_DEADLINE + MIN_OPENING_GAP
MIDNIGHT = datetime(2026, 1, 6, tzinfo=UTC)


def opened(head: Head) -> Burst:
    assert head.open is not None
    return head.open


def decided(*mentions: Mention, head: Head = FRESH, now: datetime = NOON, collapse: timedelta | None = None) -> Head:
    return advance(head, numbered(*mentions), sequenced_events=(), now=now, nonce="n", collapse_override=collapse)


def test_first_mention_opens_a_burst() -> None:
    after = decided(mention())
    assert (after.seq, after.version, after.is_published) == (1, 1, False)
    assert after.outbox == (opened(after),)
    assert [s.seq for s in after.sequenced] == [1]


def test_mention_joins_within_the_window_and_then_opens_another() -> None:
    head = advanced(FRESH, mention(1), mention(2, author=BOB))
    head = advanced(head, mention(3), now=NOON + MINUTE - MIN_OPENING_GAP)
    assert (head.seq, opened(head).count, opened(head).mentioners) == (1, 3, (ADA, BOB))
    assert advanced(head, mention(4), now=NOON + MINUTE).seq == 2


def test_growth_of_announced_burst_is_written_but_not_announced() -> None:
    after = decided(mention(2), head=replace(advanced(FRESH, mention(1)), applied={}), now=NOON + SECOND)
    assert [burst.key.seq for burst in after.outbox] == [1]
    assert after.outbox[0].key.seq <= after.announced


def test_applied_record_changes_nothing() -> None:
    head = advanced(FRESH, mention(1))
    assert advance(head, numbered(mention(2)), sequenced_events=(), now=NOON, nonce="n") is head


def test_applied_record_is_skipped_in_a_longer_batch() -> None:
    after = advance(
        advanced(FRESH, mention(1)), numbered(mention(1), mention(2)), sequenced_events=(), now=NOON, nonce="n"
    )
    assert (opened(after).count, after.applied) == (2, {LANE: 1})


def test_subject_continues_in_another_partition() -> None:
    head = advanced(FRESH, mention(1), mention(2))
    moved = numbered(mention(3), partition="mentions.celebrity/5")
    after = advance(head, moved, sequenced_events=(), now=NOON, nonce="n")
    assert (opened(after).count, after.applied) == (3, {LANE: 1, moved[0].partition: 0})
    assert advance(after_publishing(after, nonce="n"), moved, sequenced_events=(), now=NOON, nonce="n").outbox == ()


def test_known_event_moves_only_the_offset() -> None:
    head = advanced(FRESH, mention(1))
    after = advance(head, numbered(mention(1), first=7), sequenced_events=[mention(1).event], now=NOON, nonce="n")
    assert after.applied == {LANE: 7}
    assert (after.seq, after.open, after.is_published) == (head.seq, head.open, True)


def test_event_repeated_in_a_batch_counts_once() -> None:
    assert opened(advanced(FRESH, mention(1), mention(1))).count == 1


def test_each_partition_has_its_own_offset() -> None:
    head = advanced(FRESH, mention(1))
    after = advance(
        head, numbered(mention(2), partition="mentions.standard/3"), sequenced_events=(), now=NOON, nonce="n"
    )
    assert after.applied == {LANE: 0, "mentions.standard/3": 0}
    assert opened(after).count == 2


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.HOLD])
def test_denied_or_held_mention_opens_no_burst(verdict: Verdict) -> None:
    after = decided(mention(verdict=verdict))
    assert (after.seq, after.is_published, after.applied) == (0, True, {LANE: 0})


def test_unpublished_head_cannot_be_advanced() -> None:
    with pytest.raises(AssertionError):
        advance(decided(mention(1)), numbered(mention(2), first=1), sequenced_events=(), now=NOON, nonce="n")


def test_each_mention_is_a_burst_with_its_own_time_without_collapsing() -> None:
    after = decided(*(mention(n, followers=SMALL) for n in range(5)), collapse=OFF)
    assert [burst.opened_at for burst in after.outbox] == [NOON + n * MIN_OPENING_GAP for n in range(5)]


def test_large_subject_collapses_even_if_turned_off() -> None:
    assert advanced(FRESH, mention(1), mention(2), collapse=OFF).seq == 1


def test_budget_limits_the_bursts_of_a_large_subject() -> None:
    head = FRESH
    for n in range(60):
        head = advanced(head, mention(n), now=NOON + n * MINUTE)
    capacity = POLICIES[OF_NOVA.kind].budget_capacity
    assert head.seq == capacity
    assert advanced(head, mention(99), now=NOON + 2 * HOUR).seq == capacity + 1


def test_budget_stays_spent_while_a_subject_is_small() -> None:
    head = FRESH
    for n in range(10):
        head = advanced(head, mention(n), now=NOON + n * MINUTE)
    head = advanced(head, mention(10, followers=SMALL), now=NOON + 11 * MINUTE)
    before = head.seq
    assert advanced(head, mention(11), now=NOON + 13 * MINUTE).seq == before


def test_personal_subject_has_no_budget() -> None:
    head = Head.empty(SELF_NOVA)
    for n in range(30):
        head = advanced(head, mention(n, subject=SELF_NOVA, followers=1), now=NOON + n * MINUTE)
    assert (head.seq, head.budget) == (30, None)


def test_protected_mention_has_its_own_burst_and_spends_no_budget() -> None:
    shared = advanced(FRESH, mention(1))
    alone = advanced(shared, mention(2, author=EVE, protected=True), now=NOON + SECOND)
    after = advanced(alone, mention(3, author=BOB), now=NOON + 2 * SECOND)
    assert (alone.seq, alone.open, after.seq) == (2, shared.open, 2)
    assert opened(after).mentioners == (ADA, BOB)
    assert shared.budget is not None
    assert alone.budget == shared.budget


def test_restricted_bursts_beyond_their_own_budget_are_pull_only() -> None:
    capacity = POLICIES[OF_NOVA.kind].budget_capacity
    after = decided(*(mention(n, author=UserId(f"p{n}"), protected=True) for n in range(capacity + 2)), mention(99))
    assert [burst.pull_only for burst in after.outbox] == [False] * capacity + [True, True, False]
    assert [burst.restricted_to for burst in after.outbox][-2:] == [f"p{capacity + 1}", None]


def test_restricted_budget_refills_while_it_is_exceeded() -> None:
    head, fanned_out = FRESH, 0
    for n in range(45):
        after = decided(mention(n, protected=True), head=replace(head, applied={}), now=NOON + n * 6 * MINUTE)
        fanned_out += sum(not burst.pull_only for burst in after.outbox)
        head = after_publishing(after, nonce="p")
    # The last of the 45 mentions comes after 4.4 hours, and the budget regains one fan-out an hour.
    capacity = POLICIES[OF_NOVA.kind].budget_capacity
    assert fanned_out in (capacity + 3, capacity + 4)


def test_small_and_personal_subjects_fan_out_all_restricted_bursts() -> None:
    for subject, followers in ((OF_NOVA, SMALL), (SELF_NOVA, 1)):
        mentions = [mention(n, subject=subject, followers=followers, protected=True) for n in range(50)]
        after = decided(*mentions, head=Head.empty(subject))
        assert (len(after.outbox), any(burst.pull_only for burst in after.outbox), after.restricted_budget) == (
            50,
            False,
            None,
        )


def test_protected_mention_is_never_first_of_the_day() -> None:
    after = decided(mention(1, protected=True), mention(2, author=BOB))
    assert [burst.first_of_day for burst in after.outbox] == [False, True]


def test_first_public_burst_of_each_day_is_its_first() -> None:
    head = advanced(FRESH, mention(1), now=MIDNIGHT - 2 * MINUTE)
    assert opened(head).first_of_day
    head = advanced(head, mention(2), now=MIDNIGHT - MINUTE)
    assert not opened(head).first_of_day
    assert opened(advanced(head, mention(3), now=MIDNIGHT)).first_of_day


def test_burst_opens_after_the_last_one_when_the_clock_goes_back() -> None:
    head = advanced(FRESH, mention(1, followers=SMALL), collapse=OFF)
    assert (
        opened(advanced(head, mention(2, followers=SMALL), now=NOON - HOUR, collapse=OFF)).opened_at
        == NOON + MIN_OPENING_GAP
    )


def test_burst_that_is_not_late_is_not_restamped() -> None:
    head = decided(mention())
    assert with_late_bursts_restamped(head, planned=(), now=NOON + VISIBILITY_DEADLINE, nonce="r") is head


def test_late_burst_opens_when_it_is_restamped() -> None:
    head = with_late_bursts_restamped(decided(mention()), planned=(), now=LATE, nonce="r")
    assert (opened(head).opened_at, head.last_opened_at, head.version, head.nonce) == (LATE, LATE, 2, "r")
    assert head.outbox == (opened(head),)


def test_written_or_announced_burst_keeps_its_time() -> None:
    unwritten = decided(mention())
    assert with_late_bursts_restamped(unwritten, planned=[1], now=LATE, nonce="r") is unwritten
    grown = decided(mention(2), head=replace(advanced(FRESH, mention(1)), applied={}))
    assert with_late_bursts_restamped(grown, planned=(), now=LATE, nonce="r") is grown


def test_bursts_after_a_late_one_are_restamped_too() -> None:
    head = decided(*(mention(n, followers=SMALL) for n in range(3)), collapse=OFF)
    after = with_late_bursts_restamped(head, planned=(), now=LATE, nonce="r")
    assert [burst.opened_at for burst in after.outbox] == [LATE, LATE + MIN_OPENING_GAP, LATE + 2 * MIN_OPENING_GAP]


def test_restamped_burst_never_has_the_time_of_a_written_one() -> None:
    head = decided(*(mention(n, followers=SMALL) for n in range(3)), collapse=OFF)
    slow = tuple(replace(b, opened_at=LATE) if b.key.seq == 3 else b for b in head.outbox)
    after = with_late_bursts_restamped(replace(head, outbox=slow), planned=[3], now=LATE, nonce="r")
    assert [burst.opened_at for burst in after.outbox] == [LATE + MIN_OPENING_GAP, LATE + 2 * MIN_OPENING_GAP, LATE]
    assert after.last_opened_at == LATE + 2 * MIN_OPENING_GAP


def test_next_burst_opens_after_a_restamped_one() -> None:
    head = after_publishing(with_late_bursts_restamped(decided(mention(1)), planned=(), now=LATE, nonce="r"), nonce="p")
    assert opened(advanced(head, mention(2), now=NOON + MINUTE)).key.seq == 1
    assert opened(advanced(head, mention(2), now=LATE + MINUTE)).opened_at == LATE + MINUTE


def test_burst_restamped_past_midnight_is_first_of_the_new_day() -> None:
    head = advanced(FRESH, mention(1, followers=SMALL), now=MIDNIGHT - HOUR, collapse=OFF)
    records = numbered(*(mention(n, followers=SMALL) for n in (2, 3)), first=1)
    head = advance(head, records, sequenced_events=(), now=MIDNIGHT - MIN_OPENING_GAP, nonce="n", collapse_override=OFF)
    assert [burst.first_of_day for burst in head.outbox] == [False, True]
    after = with_late_bursts_restamped(head, planned=(), now=MIDNIGHT + 2 * SECOND, nonce="r")
    assert [burst.first_of_day for burst in after.outbox] == [True, False]


def test_publishing_empties_the_outbox_and_announces_all_bursts() -> None:
    head = after_publishing(decided(mention(1)), nonce="p")
    assert (head.outbox, head.sequenced, head.announced, head.is_published) == ((), (), 1, True)
    assert (head.version, head.nonce) == (2, "p")


def test_mention_with_push_does_not_join_a_burst_without() -> None:
    after = decided(mention(1, verdict=Verdict.ROW), mention(2), mention(3, verdict=Verdict.ROW))
    assert [burst.verdict for burst in after.outbox] == [Verdict.ROW, Verdict.ALL]
    assert [burst.count for burst in after.outbox] == [1, 2]


@pytest.mark.parametrize("lag", [MAX_CLOCK_SKEW, MAX_OPENING_LEAD])
def test_burst_opens_no_earlier_than_its_mention_was_accepted(lag: timedelta) -> None:
    head = decided(replace(mention(), accepted_at=NOON), now=NOON - lag)
    assert opened(head).opened_at == NOON


def test_burst_time_follows_a_fast_gateway_clock_only_to_a_limit() -> None:
    head = decided(replace(mention(), accepted_at=NOON + HOUR), now=NOON)
    assert opened(head).opened_at == NOON + MAX_OPENING_LEAD
