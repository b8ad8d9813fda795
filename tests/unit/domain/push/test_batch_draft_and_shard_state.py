"""Drafts and shard states: the pure decisions of the push pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.batch_draft import Draft, count_attempts, first_alert_draft, in_doubt_draft, within_rate
from notifier.domain.push.device import Device, FirebaseToken
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.late_alert_catch_up import LateAudience
from notifier.domain.push.send_log import (
    RETRY_WINDOW,
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    SendBatch,
    SendLogKey,
    SendProgress,
    SilentReason,
)
from notifier.domain.push.shard_state import ShardState
from tests.support.domain_examples import HOUR, NOON, SECOND, burst

LOG_KEY = SendLogKey(BurstKey.parse("mention:nova#1"), Tier.P1, 0, Platform.FCM)
LATE = NOON + LATE_AFTER + SECOND


def device(member: int, number: int = 0) -> Device:
    return Device(member=Member(member), address=FirebaseToken(token=f"{member}-{number}"), registered_at=NOON)


def state(*alerted: int) -> ShardState:
    return ShardState(log_key=LOG_KEY, to_alert=from_offsets(alerted))


def draft(*numbers: int, number: int = 0) -> Draft:
    return first_alert_draft(state(*numbers), burst(), [device(member) for member in numbers], number, NOON)


def recipients(sent: Draft) -> Sequence[int]:
    return [attempt.state.member for attempt in sent.attempts]


def waiting(member: int, *, after: timedelta, tries: int = 1) -> FailedAttempt:
    tried = AttemptState(device=device(member).id, member=Member(member), first_at=NOON, failed_attempts=tries)
    return FailedAttempt(state=tried, outcome=AlertOutcome.RETRY, at=NOON + after, reason="busy")


def with_waiting(shard: ShardState, *missed: FailedAttempt) -> ShardState:
    return replace(shard, progress=SendProgress(pending_retries={attempt.state.device: attempt for attempt in missed}))


def test_shard_is_ready_for_members_neither_sent_to_nor_held_back() -> None:
    shard = replace(
        state(1, 2, 3, 4, 5),
        progress=SendProgress(in_batches=from_offsets([1])),
        suppressed=from_offsets([2]),
        quiet=from_offsets([3]),
        deferred=from_offsets([4]),
    )
    assert members(shard.ready, 0) == [5]
    assert members(shard.unsent, 0) == [3, 4, 5]


def test_shard_wakes_for_retries_and_for_the_end_of_quiet_hours() -> None:
    quiet = replace(state(1, 2), quiet=from_offsets([2]), quiet_until=NOON + 8 * HOUR)
    assert [*quiet.wake_times(NOON)] == [NOON + 8 * HOUR]
    assert [*with_waiting(quiet, waiting(1, after=SECOND)).wake_times(NOON)] == [NOON + SECOND, NOON + 8 * HOUR]
    assert [*replace(quiet, suppressed=from_offsets([2])).wake_times(NOON)] == []


def test_shard_wakes_for_a_retry_that_waits_for_quiet_hours_only() -> None:
    quiet = replace(state(), quiet=from_offsets([2]), quiet_until=NOON + HOUR)
    assert [*with_waiting(quiet, waiting(2, after=-SECOND)).wake_times(NOON)] == [NOON + HOUR]


def test_due_retry_waits_in_quiet_hours_until_its_window_closes() -> None:
    quiet = replace(state(), quiet=from_offsets([2]), quiet_until=NOON + 8 * HOUR)
    shard = with_waiting(quiet, waiting(2, after=SECOND), waiting(1, after=SECOND), waiting(3, after=HOUR))
    assert [tried.member for tried in shard.due_retries(NOON)] == []
    assert [tried.member for tried in shard.due_retries(NOON + SECOND)] == [1]
    over = NOON + RETRY_WINDOW + SECOND
    assert [tried.member for tried in shard.due_retries(over)] == [1, 2]
    assert [shard.may_retry(tried, over) for tried in shard.due_retries(over)] == [False, False]


def test_collapsed_member_is_in_the_batch_and_gets_nothing() -> None:
    audience = LateAudience.of_members(from_offsets([1, 2])).collapse(from_offsets([2])).cover(7, from_offsets([1]))
    summary = first_alert_draft(state(1, 2).after_catch_up(audience), burst(), [device(1), device(2)], 0, LATE)
    assert (recipients(summary), summary.attempts[0].state.late_burst_count) == ([1], 2)
    assert members(summary.batch.silent[SilentReason.COLLAPSED], 0) == [2]
    assert summary.batch.covered_by_alert(Member(1)) == (7,)
    assert summary.batch.covered_by_alert(Member(2)) == ()


def test_capped_member_stays_in_the_batch_and_loses_all_devices() -> None:
    original = first_alert_draft(state(1, 2), burst(), [device(1), device(1, 1), device(2)], 0, NOON)
    capped = original.capped({Member(1): Ruling.HOURLY, Member(2): Ruling.AGAIN})
    assert (recipients(capped), members(capped.batch.members, 0)) == ([2], [1, 2])
    assert {why: members(bits, 0) for why, bits in capped.batch.silent.items()} == {SilentReason.HOURLY: [1]}
    assert original.capped({Member(1): Ruling.NEW, Member(2): Ruling.NEW}) is original


def test_capped_member_is_in_no_summary() -> None:
    audience = LateAudience.of_members(from_offsets([1, 2])).cover(7, from_offsets([1, 2]))
    original = first_alert_draft(state(1, 2).after_catch_up(audience), burst(), [device(1), device(2)], 0, LATE)
    capped = original.capped({Member(1): Ruling.DAILY})
    assert {older_bursts: members(bits, 0) for older_bursts, bits in capped.batch.summaries.items()} == {(7,): [2]}


def test_caps_apply_to_first_alerts_only() -> None:
    again = SendBatch(number=3, at=NOON, retries=(AttemptState(device=device(1).id, member=Member(1), first_at=NOON),))
    assert draft(1).is_first_alert
    assert not Draft(log_key=LOG_KEY, batch=again, attempts=()).is_first_alert
    assert not replace(draft(1), is_in_doubt=True).is_first_alert


def test_cut_never_splits_the_devices_of_one_member() -> None:
    original = first_alert_draft(state(1, 2), burst(), [device(1), device(1, 1), device(2)], 0, NOON)
    assert recipients(original.cut(1)) == [1, 1]
    assert members(original.cut(1).batch.members, 0) == [1]
    assert original.cut(3) is original


def test_rate_limit_keeps_the_first_drafts_and_cuts_the_last_one() -> None:
    batch = [draft(1, 2), draft(3, 4, number=1), draft(5, number=2)]
    assert [recipients(kept) for kept in within_rate(batch, 3)] == [[1, 2], [3]]
    assert [recipients(kept) for kept in within_rate(batch, 99)] == [[1, 2], [3, 4], [5]]
    assert within_rate(batch, 0) == []
    assert count_attempts(batch) == 5


def test_rate_limit_does_not_hold_back_drafts_that_send_nothing() -> None:
    batch_in_doubt = Draft(log_key=LOG_KEY, batch=SendBatch(number=1, at=NOON), attempts=(), is_in_doubt=True)
    assert within_rate([batch_in_doubt, draft(1)], 0) == [batch_in_doubt]


def test_crash_leaves_every_device_of_the_batch_in_doubt() -> None:
    again = AttemptState(device=device(2).id, member=Member(2), first_at=NOON, failed_attempts=2)
    batch = SendBatch(number=0, at=NOON, members=from_offsets([1]), retries=(again,))
    in_doubt = in_doubt_draft(state(1), burst(), batch, [device(1)], NOON + HOUR)
    assert (in_doubt.is_in_doubt, recipients(in_doubt), in_doubt.is_empty) == (True, [], False)
    assert {attempt.state.member: attempt.outcome for attempt in in_doubt.results_without_sending()} == {
        1: AlertOutcome.UNKNOWN,
        2: AlertOutcome.GIVEN_UP,
    }


def test_retry_that_is_not_sent_is_closed_with_the_reason() -> None:
    fresh = AttemptState(device=device(1).id, member=Member(1), first_at=NOON)
    expired = AttemptState(device=device(2).id, member=Member(2), first_at=NOON - HOUR, failed_attempts=1)
    batch = SendBatch(number=1, at=NOON, retries=(fresh, expired))
    unsent = Draft(log_key=LOG_KEY, batch=batch, attempts=())
    assert [attempt.outcome for attempt in unsent.results_without_sending()] == [
        AlertOutcome.SUPPRESSED,
        AlertOutcome.GIVEN_UP,
    ]
