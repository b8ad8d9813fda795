"""`explain` derives a user's alerts from send log, snapshot, ledger and current state alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest

from notifier.cli.commands.explain.alert_and_digest_text import REASON_TEXTS, alert_json, alert_text
from notifier.cli.commands.explain.alerts import (
    AlertState,
    ExplainedAlert,
    ExplainedCase,
    ExplainRule,
    explained_alerts,
)
from notifier.cli.commands.explain.command import explanation
from notifier.domain.audience.bitmap import Bits, from_offsets, no_members
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import Fact, LedgerEntry, State, burst_progress
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import Member, Platform, UserId
from notifier.domain.push.device import AppleToken, Device, FirebaseToken
from notifier.domain.push.receipt import RetryAt
from notifier.domain.push.send_log import AlertOutcome, AttemptState, FailedAttempt, SendBatch, SilentReason
from notifier.domain.users.account_preferences import DEFAULT_ACCOUNT_PREFERENCES, AccountPreferences
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.visibility import HiddenReason, Mark, Marks, SuppressionReason
from tests.cli.in_memory_read_ports import reads_of
from tests.support.domain_examples import ADA, HOUR, MINUTE, NOON, SECOND, burst, entry, plan_of, slice_of, viewer
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

BOB, OTHER = Member(7), Member(8)
"""Both are in P1; bob is the viewer."""
PHONE = Device(member=BOB, address=FirebaseToken(token="t" * 40), registered_at=NOON - HOUR)
OTHER_PHONE = replace(PHONE, address=FirebaseToken(token="u" * 40))
FIRST_TRY = AttemptState(device=PHONE.id, member=BOB, first_at=NOON, failed_attempts=1)
PUSH_SLICE = slice_of(Tier.P1, step=Step.FCM)
PLAN = plan_of(pushed=(Tier.P0, Tier.P1, Tier.P2, Tier.DORMANT))
LATER = NOON + MINUTE
NIGHT = AccountPreferences(quiet=QuietHours(start=time(11), end=time(14)))


def bits_of(*members: int) -> Bits:
    return from_offsets(members)


def batch(**fields: Any) -> SendBatch:
    defaults: dict[str, Any] = {"number": 0, "at": NOON, "members": bits_of(BOB, OTHER), "failures": ()}
    return SendBatch(**defaults | fields)


def retry_batch(**fields: Any) -> SendBatch:
    return batch(number=1, at=LATER, members=no_members(), retries=(FIRST_TRY,), **fields)


def failed_attempt(
    outcome: AlertOutcome, *, to: AttemptState = FIRST_TRY, after: timedelta | None = None
) -> FailedAttempt:
    return FailedAttempt(state=to, outcome=outcome, at=None if after is None else NOON + after, reason="busy")


def snapshot(*, tier: Tier | None = Tier.P1, push: bool = True) -> AudienceSnapshot:
    return AudienceSnapshot(
        shard=0,
        opened_at=NOON,
        tiers={each_tier: bits_of(BOB) if each_tier is tier else no_members() for each_tier in TIERS},
        to_alert=bits_of(BOB) if push else no_members(),
        dormant_count=0,
        suppressed_counts={},
    )


def case(
    *batches: SendBatch,
    entries: Sequence[LedgerEntry] = (),
    preferences: AccountPreferences = DEFAULT_ACCOUNT_PREFERENCES,
    **fields: Any,
) -> ExplainedCase:
    defaults: dict[str, Any] = {
        "burst": burst(),
        "viewer": replace(viewer(), account_preferences=preferences),
        "member": BOB,
        "snapshot": snapshot(),
        "progress": burst_progress(PLAN, entries, ()),
        "devices": [PHONE],
        "batches": {Platform.FCM: batches},
        "now": NOON + SECOND,
    }
    return ExplainedCase(**defaults | fields)


def explained_alert(case: ExplainedCase) -> ExplainedAlert:
    [alert] = explained_alerts(case)
    assert alert.platform is Platform.FCM
    return alert


def test_accepted_alert_is_explained_with_its_time() -> None:
    alert = explained_alert(case(batch()))
    assert (alert.state, alert.at, list(alert.devices)) == (AlertState.SENT, NOON, [])
    assert alert_text(alert) == "sent at 2026-01-05T12:00:00.000Z"


@pytest.mark.parametrize("reason", SilentReason)
def test_silenced_alert_is_explained_with_its_rule(reason: SilentReason) -> None:
    alert = explained_alert(case(batch(silent={reason: bits_of(BOB)})))
    assert (alert.state, alert.rule, alert.at) == (AlertState.SILENT, reason, NOON)
    assert not alert.may_be_received
    assert explained_alert(case(batch(silent={reason: bits_of(OTHER)}))).state is AlertState.SENT


def test_results_of_other_members_are_not_explained() -> None:
    other_members = failed_attempt(AlertOutcome.DROPPED, to=replace(FIRST_TRY, member=OTHER))
    assert explained_alert(case(batch(failures=(other_members,)))).devices == []
    assert explained_alert(case(batch(members=bits_of(OTHER)))).state is AlertState.PENDING


def test_summary_is_explained_with_its_number_of_bursts() -> None:
    alert = explained_alert(case(batch(summaries={(4, 7): bits_of(BOB), (7,): bits_of(OTHER)})))
    assert (alert.state, alert.burst_count) == (AlertState.SENT, 3)
    assert "for 3 bursts of the account" in alert_text(alert)


@pytest.mark.parametrize("outcome", [AlertOutcome.RETRY, AlertOutcome.UNKNOWN])
def test_pending_retry_is_explained_with_time_and_tries(outcome: AlertOutcome) -> None:
    alert = explained_alert(case(batch(failures=(failed_attempt(outcome, after=MINUTE),))))
    [device] = alert.devices
    assert (alert.state, alert.until) == (AlertState.RETRYING, LATER)
    assert (device.last_failure, device.failed_attempts, device.next_attempt_at, device.reason) == (
        outcome,
        1,
        LATER,
        "busy",
    )


@pytest.mark.parametrize(
    "outcome", [AlertOutcome.DROPPED, AlertOutcome.REFUSED, AlertOutcome.GIVEN_UP, AlertOutcome.SUPPRESSED]
)
def test_final_failure_is_explained_with_its_reason(outcome: AlertOutcome) -> None:
    alert = explained_alert(case(batch(failures=(failed_attempt(outcome),))))
    assert (alert.state, alert.until, [device.last_failure for device in alert.devices]) == (
        AlertState.FAILED,
        None,
        [outcome],
    )
    assert alert_text(alert).startswith("tried at 2026-01-05T12:00:00.000Z; ")
    assert "busy" in alert_text(alert)
    assert (
        explained_alert(case(batch(failures=(failed_attempt(outcome),)), devices=[PHONE, OTHER_PHONE])).state
        is AlertState.SENT
    )
    new_phone = replace(OTHER_PHONE, registered_at=LATER)
    assert (
        explained_alert(case(batch(failures=(failed_attempt(outcome),)), devices=[PHONE, new_phone])).state
        is AlertState.FAILED
    )


def test_latest_batch_of_a_device_counts() -> None:
    first_batch = batch(failures=(failed_attempt(AlertOutcome.RETRY, after=MINUTE),))
    [open_attempt] = explained_alert(case(first_batch, retry_batch(failures=None))).devices
    [closed_attempt] = explained_alert(case(retry_batch(), first_batch)).devices
    assert (open_attempt.is_sending, open_attempt.next_attempt_at) == (True, None)
    assert (closed_attempt.is_sending, closed_attempt.last_failure, closed_attempt.failed_attempts) == (False, None, 1)
    assert explained_alert(case(first_batch, retry_batch(failures=None))).state is AlertState.SENDING


def test_alerts_of_open_batch_are_being_sent_until_slice_ends() -> None:
    open_batch = batch(failures=None)
    assert explained_alert(case(open_batch)).state is AlertState.SENDING
    ended = explained_alert(case(open_batch, entries=[entry(PUSH_SLICE, Fact.PULLED)]))
    assert (ended.state, ended.devices) == (AlertState.UNKNOWN, [])


def test_seen_burst_is_not_sent_again() -> None:
    alert = explained_alert(seen_by(case(batch(failures=(failed_attempt(AlertOutcome.RETRY, after=MINUTE),)))))
    assert (alert.state, alert.rule, alert.until) == (AlertState.FAILED, SuppressionReason.SEEN, None)
    assert f"no further attempt: {REASON_TEXTS[SuppressionReason.SEEN]}" in alert_text(alert)
    assert [device.next_attempt_at for device in alert.devices] == [None]
    assert explained_alert(seen_by(case(batch()))).rule is None


def seen_by(case: ExplainedCase) -> ExplainedCase:
    return replace(case, viewer=replace(case.viewer, marks=Marks(seen_at=NOON + HOUR)))


SUPPRESSED: Mapping[SuppressionReason | HiddenReason | ExplainRule, ExplainedCase] = {
    SuppressionReason.ALERTS_OFF: case(preferences=AccountPreferences(push=False)),
    SuppressionReason.OPENER_BLOCKED: case(
        viewer=viewer(blocked=[ADA]), burst=burst(mentioners=(ADA, UserId("eve")), more_mentioners=True)
    ),
    SuppressionReason.MARKED: case(viewer=viewer(marks=Marks(by_burst={burst().key: Mark.READ}))),
    SuppressionReason.SEEN: seen_by(case()),
    HiddenReason.NOT_FOLLOWED: case(viewer=viewer(follows={})),
    HiddenReason.RETRACTED: case(burst=burst(count=0)),
    ExplainRule.OPENER_RETRACTED: case(burst=replace(burst(), silent=True)),
}


@pytest.mark.parametrize("rule", SUPPRESSED, ids=str)
def test_suppressed_alert_is_explained_with_its_rule(rule: SuppressionReason | HiddenReason | ExplainRule) -> None:
    alert = explained_alert(SUPPRESSED[rule])
    assert (alert.state, alert.rule) == (AlertState.SUPPRESSED, rule)
    assert alert_text(alert) == f"suppressed now: {REASON_TEXTS[rule]}"


NEVER: Mapping[ExplainRule, ExplainedCase] = {
    ExplainRule.ROW_ONLY: case(burst=burst(verdict=Verdict.ROW)),
    ExplainRule.PULL_ONLY: case(burst=replace(burst(), pull_only=True)),
    ExplainRule.NO_PROVIDER: case(progress=burst_progress(replace(PLAN, platforms=(Platform.APNS,)), (), ())),
    ExplainRule.NO_DEVICE: case(snapshot=snapshot(push=False)),
    ExplainRule.OFF_BY_DEFAULT: case(snapshot=snapshot(tier=Tier.P2, push=False)),
    ExplainRule.TOO_LATE: case(entries=[entry(PUSH_SLICE, Fact.PULLED)]),
    ExplainRule.DEAD: case(entries=[entry(PUSH_SLICE, Fact.DEAD)]),
    ExplainRule.SKIPPED: case(entries=[entry(PUSH_SLICE, Fact.DONE)]),
    ExplainRule.NO_SNAPSHOT: case(snapshot=None, progress=burst_progress(plan_of(shards=0), (), ())),
}


@pytest.mark.parametrize("rule", NEVER, ids=str)
def test_missing_alert_is_explained_with_its_rule(rule: ExplainRule) -> None:
    alert = explained_alert(NEVER[rule])
    assert (alert.state, alert.rule, alert.may_be_received) == (AlertState.NEVER, rule, False)
    assert alert_text(alert) == f"none: {REASON_TEXTS[rule]}"


def test_alerted_tier_requires_no_opt_in() -> None:
    alerted_tier = case(snapshot=snapshot(tier=Tier.P2, push=False), pushed_tiers=TIERS)
    assert explained_alert(alerted_tier).rule is ExplainRule.NO_DEVICE


def test_opted_in_user_without_alert_had_no_device() -> None:
    opted_in = AccountPreferences(push=True)
    assert (
        explained_alert(case(snapshot=snapshot(tier=Tier.P2, push=False), preferences=opted_in)).rule
        is ExplainRule.NO_DEVICE
    )
    assert (
        explained_alert(case(snapshot=snapshot(tier=None, push=False), preferences=opted_in)).rule
        is ExplainRule.NO_DEVICE
    )
    assert explained_alert(case(snapshot=snapshot(tier=None, push=False))).rule is ExplainRule.OFF_BY_DEFAULT


def test_deferred_alert_is_explained_with_time_and_rule() -> None:
    in_quiet_hours = explained_alert(case(preferences=NIGHT))
    later_end = explained_alert(case(preferences=AccountPreferences(quiet=QuietHours(start=time(11), end=time(14, 1)))))
    provider_wait = explained_alert(case(entries=[entry(PUSH_SLICE, Fact.DEFERRED, n=1, at=LATER)]))
    assert (in_quiet_hours.state, in_quiet_hours.rule, in_quiet_hours.until) == (
        AlertState.DEFERRED,
        ExplainRule.QUIET_HOURS,
        NOON + 2 * HOUR,
    )
    assert later_end.until == NOON + 2 * HOUR + 15 * MINUTE
    assert (provider_wait.state, provider_wait.rule, provider_wait.until) == (
        AlertState.DEFERRED,
        ExplainRule.SLICE_DEFERRED,
        LATER,
    )


def test_dormant_members_wait_for_their_own_slices() -> None:
    waits = entry(slice_of(Tier.DORMANT, step=Step.FCM), Fact.DEFERRED, n=1, at=LATER)
    assert explained_alert(case(snapshot=snapshot(tier=None), entries=[waits])).until == LATER
    assert explained_alert(case(snapshot=snapshot(tier=Tier.P2), entries=[waits])).state is AlertState.PENDING


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        (case(), State.PLANNED),
        (case(snapshot=None), State.PLANNED),
        (case(progress=None), State.PLANNED),
        (case(entries=[entry(PUSH_SLICE, Fact.DISPATCHED, n=1)]), State.IN_FLIGHT),
    ],
    ids=["planned", "no snapshot", "no plan", "queued"],
)
def test_pending_alert_is_explained_by_state_of_its_slice(case: ExplainedCase, rule: State) -> None:
    assert (explained_alert(case).state, explained_alert(case).rule) == (AlertState.PENDING, rule)


def test_every_provider_with_a_device_or_a_batch_is_explained() -> None:
    apple = Device(member=BOB, address=AppleToken(token="a" * 64, topic="app"), registered_at=NOON)
    explained = explained_alerts(case(batch(), devices=[apple]))
    assert [(alert.platform, alert.state) for alert in explained] == [
        (Platform.APNS, AlertState.PENDING),
        (Platform.FCM, AlertState.SENT),
    ]
    assert explained_alerts(case(devices=[])) == []


def test_alert_facts_have_stable_names() -> None:
    facts = alert_json(explained_alert(case(batch(failures=(failed_attempt(AlertOutcome.RETRY, after=MINUTE),)))))
    assert facts == {
        "platform": "fcm",
        "state": "retrying",
        "rule": None,
        "explanation": facts["explanation"],
        "at": "2026-01-05T12:00:00.000Z",
        "until": "2026-01-05T12:01:00.000Z",
        "bursts": 1,
        "devices": [
            {
                "device": PHONE.id,
                "state": "retry",
                "failed_attempts": 1,
                "until": "2026-01-05T12:01:00.000Z",
                "reason": "busy",
            }
        ],
    }


def test_alert_is_explained_from_snapshot_to_last_try() -> None:
    stage, kim = Stage(), UserId("kim")
    member = Member(stage.population.people["kim"].member)
    [phone] = stage.state.devices.by_member([member])[member]
    stage.state.phones.answers[phone.id] = [RetryAt(at=stage.state.clock.now() + MINUTE, reason="busy")]
    stage.mention("nova")
    states = [alert_state(stage, kim)]
    for _ in range(3):
        stage.deliver_others()
    states.append(alert_state(stage, kim))
    stage.deliver(rounds=90)
    states.append(alert_state(stage, kim))
    assert states == [("pending", []), ("retrying", ["retry"]), ("sent", ["sent"])]


def alert_state(stage: Stage, user: UserId) -> tuple[str, list[str]]:
    explained: dict[str, Any] = run_sync(explanation(stage.ports, lambda: reads_of(stage), stage.bursts()[0], user))
    [alert] = explained["alerts"]
    return alert["state"], [device["state"] for device in alert["devices"]]
