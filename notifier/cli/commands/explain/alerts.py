"""Explains the alerts of one burst and user, per push provider.

The explanation is based on the user's entries in the send log. Without an entry, or if circuit breakers have held
the alert back so far, it is based on the current state.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.bitmap import contains, shard_of
from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS, AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, State
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.send_log import (
    RETRY_WINDOW,
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    SendBatch,
    SilentReason,
)
from notifier.domain.users.visibility import HiddenReason, SuppressionReason, Viewer, hidden_reason, suppression_reason

# Devices in the send log, which names only devices that did not accept their alert at the first attempt.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """Latest state of one device in the send log."""

    device: DeviceId
    last_failure: AlertOutcome | None = None
    """Outcome of the last attempt. None: the device has accepted the alert, or the result is not recorded."""
    is_sending: bool = False
    """Whether an attempt has begun and its result is not recorded: it is running, or was interrupted."""
    failed_attempts: int
    next_attempt_at: datetime | None = None
    """Earliest time of the next attempt. None: none is planned."""
    gives_up_at: datetime | None = None
    """Time after which no attempt is made. None: there is no such limit, or an attempt is running."""
    reason: str | None = None
    """Reason of `last_failure`, often the provider's."""

    @property
    def is_unsent(self) -> bool:
        """Whether nothing was sent to the device yet, because a circuit breaker was open."""
        return self.last_failure is AlertOutcome.HELD and not self.failed_attempts

    @property
    def accepted_later(self) -> bool:
        """Whether the device accepted the alert, but not at the first attempt."""
        return self.last_failure is None and not self.is_sending


def device_states(batches: Sequence[SendBatch], member: Member) -> Sequence[DeviceState]:
    """Return the latest state of each device of the member that the log names.

    `batches` must be sorted by time and number.
    """
    latest: dict[DeviceId, DeviceState] = {}
    for batch in batches:
        for attempt in batch.retries:
            if attempt.member == member:
                latest[attempt.device] = DeviceState(
                    device=attempt.device, is_sending=batch.is_open, failed_attempts=attempt.failed_attempts
                )
        for failure in batch.failures or ():
            if failure.state.member == member:
                latest[failure.state.device] = _failed_state(failure)
    return list(latest.values())


def without_retries(devices: Sequence[DeviceState]) -> Sequence[DeviceState]:
    """Return the devices without the times of their next attempts."""
    return [replace(device, next_attempt_at=None) for device in devices]


def attempts_of(batch: SendBatch, member: Member) -> Iterator[AttemptState]:
    yield from (attempt for attempt in batch.retries if attempt.member == member)
    yield from (failure.state for failure in batch.failures or () if failure.state.member == member)


def _failed_state(failure: FailedAttempt) -> DeviceState:
    attempt = failure.state
    return DeviceState(
        device=attempt.device,
        last_failure=failure.outcome,
        failed_attempts=attempt.failed_attempts,
        next_attempt_at=failure.at,
        gives_up_at=attempt.first_at + RETRY_WINDOW if attempt.failed_attempts else None,
        reason=failure.reason,
    )


class AlertState(StrEnum):
    """State of the alert of one user by one provider."""

    SENT = "sent"
    """Sent. Devices that did not accept it at once are listed with their state."""
    FAILED = "failed"
    """No device is known to have accepted the alert, and it isn't retried."""
    RETRYING = "retrying"
    """It will be retried for at least one device."""
    SENDING = "sending"
    """Its batch is open. If the worker has stopped, the alert may have arrived, and is sent again."""
    UNKNOWN = "unknown"
    """It may have arrived: its batch was open when the slice ended or the user was suppressed. It isn't sent again."""
    SILENT = "silent"
    """A rule permanently suppressed it when it was due."""
    SUPPRESSED = "suppressed"
    """A rule suppresses it now, for example because the user has seen the burst."""
    DEFERRED = "deferred"
    """It can't be sent before a known time."""
    PENDING = "pending"
    """Its slice is planned, in flight or parked."""
    NEVER = "never"
    """It was not sent, and will not be."""


class ExplainRule(StrEnum):
    """Reasons that only this command distinguishes. The other reasons are rules of the domain."""

    OPENER_RETRACTED = "opener_retracted"
    QUIET_HOURS = "quiet_hours"
    SLICE_DEFERRED = "slice_deferred"
    ROW_ONLY = "row_only"
    PULL_ONLY = "pull_only"
    NO_SNAPSHOT = "no_snapshot"
    NO_PROVIDER = "no_provider"
    NO_DEVICE = "no_device"
    OFF_BY_DEFAULT = "off_by_default"
    TOO_LATE = "too_late"
    DEAD = "dead"
    SKIPPED = "skipped"


Reason = SilentReason | SuppressionReason | HiddenReason | ExplainRule | State


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCase:
    """One burst and one user, with the facts that explain the user's alerts."""

    burst: Burst
    viewer: Viewer
    member: Member
    snapshot: AudienceSnapshot | None
    """Audience snapshot of the user's shard."""
    progress: BurstProgress | None
    devices: Sequence[Device]
    """Current devices of the user."""
    batches: Mapping[Platform, Sequence[SendBatch]]
    """Send batches of the user's shard, for all tiers."""
    now: datetime
    throttle_ids: Collection[str] = ()
    """Throttles that hold work back now."""
    pushed_tiers: Collection[Tier] = DEFAULT_PUSHED_TIERS
    """Tiers that get alerts by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAlert:
    """The alert of a user by one provider, with the reason for its state."""

    platform: Platform
    state: AlertState
    rule: Reason | None = None
    at: datetime | None = None
    """Time of the first attempt, or of the suppression."""
    until: datetime | None = None
    """Earliest time of the next attempt."""
    burst_count: int = 1
    """Number of bursts that the alert covers. A summary covers more than one."""
    may_be_received: bool = False
    """Whether a device has received it, or may have. A retry that is running doesn't count."""
    devices: Sequence[DeviceState] = ()
    """Devices with an entry in the send log."""


def explained_alerts(case: ExplainedCase) -> Sequence[ExplainedAlert]:
    """Return the alert of each provider for which the user has a device or an entry in the send log."""
    platforms = {device.platform for device in case.devices}
    return [
        _explain(case, platform)
        for platform in Platform
        if platform in platforms or any(_batches_with_user(case, platform))
    ]


def _batches_with_user(case: ExplainedCase, platform: Platform) -> Iterator[SendBatch]:
    """Yield the send batches of the provider that contain the user, sorted by time and number."""
    for batch in sorted(case.batches.get(platform, ()), key=lambda batch_: (batch_.at, batch_.number)):
        if contains(batch.members, case.member) or any(attempts_of(batch, case.member)):
            yield batch


def _explain(case: ExplainedCase, platform: Platform) -> ExplainedAlert:
    batches = list(_batches_with_user(case, platform))
    if not batches:
        return _explain_unsent(case, platform)
    for reason, members in batches[0].silent.items():
        if contains(members, case.member):
            return ExplainedAlert(platform=platform, state=AlertState.SILENT, rule=reason, at=batches[0].at)
    return _explain_sent(case, platform, batches)


def _explain_unsent(case: ExplainedCase, platform: Platform) -> ExplainedAlert:
    state, rule, until = _reason_if_unsent(case, platform)
    return ExplainedAlert(platform=platform, state=state, rule=rule, until=until)


def _burst_count(case: ExplainedCase, first: SendBatch) -> int:
    return 1 + len(first.covered_by_alert(case.member))


def _explain_sent(case: ExplainedCase, platform: Platform, batches: Sequence[SendBatch]) -> ExplainedAlert:
    """Explain an alert that is in the send log.

    Suppressed users get no retries. A retry waits for the end of quiet hours, and is dropped if the retry window closes
    earlier.
    """
    first, slice_state, rule = batches[0], _slice_state(case, platform), _suppression(case)
    is_final = rule is not None or (slice_state is not None and slice_state.final_entry is not None)
    devices = device_states(batches, case.member)
    may_be_received = _may_be_received(case, platform, first, devices)
    if not may_be_received and all(device.is_unsent for device in devices):
        return replace(
            _explain_unsent(case, platform), burst_count=_burst_count(case, first), devices=without_retries(devices)
        )
    retry_times = [at for device in devices if (at := _next_attempt(case, device)) is not None]
    retry_window_ends_in_quiet_hours = not retry_times and any(device.next_attempt_at is not None for device in devices)
    if any(batch.is_open for batch in batches):
        state = AlertState.UNKNOWN if is_final else AlertState.SENDING
    elif retry_times and not is_final:
        state = AlertState.RETRYING
    else:
        state = AlertState.SENT if may_be_received else AlertState.FAILED
    shown_rule = rule if retry_times else None
    if retry_window_ends_in_quiet_hours:
        shown_rule = rule or ExplainRule.QUIET_HOURS
    return ExplainedAlert(
        platform=platform,
        state=state,
        rule=shown_rule,
        at=first.at,
        until=min(retry_times) if retry_times and not is_final else None,
        burst_count=_burst_count(case, first),
        may_be_received=may_be_received,
        devices=without_retries(devices) if is_final or retry_window_ends_in_quiet_hours else devices,
    )


def _may_be_received(case: ExplainedCase, platform: Platform, first: SendBatch, devices: Sequence[DeviceState]) -> bool:
    """Return whether a device of the user has accepted the alert, or may have.

    A device without an entry in the send log has accepted the alert at the first attempt. Without any entry the answer
    is yes, because a device that was removed since may have accepted the alert.
    """
    listed_ids = {device.device for device in devices}
    current_devices = [
        device for device in case.devices if device.platform is platform and device.registered_at <= first.at
    ]
    has_unlisted = any(device.id not in listed_ids for device in current_devices)
    return (
        not devices
        or has_unlisted
        or any(device.accepted_later or device.last_failure is AlertOutcome.UNKNOWN for device in devices)
    )


def _next_attempt(case: ExplainedCase, device: DeviceState) -> datetime | None:
    """Return when the device is tried again, after any quiet hours.

    None: no attempt is planned, or the retry window closes before that time.
    """
    if device.next_attempt_at is None:
        return None
    at = max(device.next_attempt_at, _alert_time_after_quiet_hours(case) or device.next_attempt_at)
    return at if device.gives_up_at is None or at <= device.gives_up_at else None


def _alert_time_after_quiet_hours(case: ExplainedCase) -> datetime | None:
    """Return when an alert of this burst is due after the current quiet hours. None: the user has none now."""
    return case.viewer.account_preferences.alert_time_after_quiet(case.burst, case.now)


_StateReason = tuple[AlertState, Reason, datetime | None]


def _reason_if_unsent(case: ExplainedCase, platform: Platform) -> _StateReason:
    """Explain why no alert was sent to the user."""
    burst, snapshot = case.burst, case.snapshot
    if burst.verdict is not Verdict.ALL:
        return AlertState.NEVER, ExplainRule.ROW_ONLY, None
    if burst.pull_only:
        return AlertState.NEVER, ExplainRule.PULL_ONLY, None
    if snapshot is not None and not contains(snapshot.to_alert, case.member):
        return _explain_excluded(case, snapshot)
    if case.progress is not None and platform not in case.progress.plan.platforms:
        return AlertState.NEVER, ExplainRule.NO_PROVIDER, None
    if (reason := _suppression(case)) is not None:
        return AlertState.SUPPRESSED, reason, None
    return _explain_without_snapshot(case) if snapshot is None else _explain_planned(case, platform)


def _suppression(case: ExplainedCase) -> SuppressionReason | HiddenReason | ExplainRule | None:
    """Return why the user must not be alerted now."""
    reason = suppression_reason(case.burst, case.viewer, now=case.now)
    return ExplainRule.OPENER_RETRACTED if reason is None and case.burst.silent else reason


def _explain_excluded(case: ExplainedCase, snapshot: AudienceSnapshot) -> _StateReason:
    """Explain why the audience snapshot excludes the user from alerts.

    The snapshot does not record the reason, so the current preferences and visibility must explain it.
    """
    tier, preferences = tier_of(snapshot, case.member), case.viewer.account_preferences
    if not preferences.allows_alerts:
        return AlertState.SUPPRESSED, SuppressionReason.ALERTS_OFF, None
    if tier is Tier.DORMANT and (reason := hidden_reason(case.burst, case.viewer, now=case.now)) is not None:
        return AlertState.SUPPRESSED, reason, None
    if tier not in case.pushed_tiers and preferences.push is None:
        return AlertState.NEVER, ExplainRule.OFF_BY_DEFAULT, None
    return AlertState.NEVER, ExplainRule.NO_DEVICE, None


def _explain_without_snapshot(case: ExplainedCase) -> _StateReason:
    if case.progress is not None and case.progress.is_finished:
        return AlertState.NEVER, ExplainRule.NO_SNAPSHOT, None
    return AlertState.PENDING, State.PLANNED, None


def _explain_planned(case: ExplainedCase, platform: Platform) -> _StateReason:
    slice_state, time_after_quiet_hours = _slice_state(case, platform), _alert_time_after_quiet_hours(case)
    if slice_state is not None and slice_state.final_entry is not None:
        # A slice that is done was sent without this user. The user had no device, or was suppressed for a reason that
        # no longer applies.
        rule = {Fact.PULLED: ExplainRule.TOO_LATE, Fact.DEAD: ExplainRule.DEAD}.get(
            slice_state.final_entry.fact, ExplainRule.SKIPPED
        )
        return AlertState.NEVER, rule, None
    if time_after_quiet_hours is not None:
        return AlertState.DEFERRED, ExplainRule.QUIET_HOURS, time_after_quiet_hours
    if slice_state is None:
        return AlertState.PENDING, State.PLANNED, None
    if slice_state.is_deferred(case.now):
        return AlertState.DEFERRED, ExplainRule.SLICE_DEFERRED, slice_state.deferred_until
    return AlertState.PENDING, slice_state.state(case.now, throttle_ids=case.throttle_ids), None


def _slice_state(case: ExplainedCase, platform: Platform) -> SliceState | None:
    if case.progress is None or case.snapshot is None:
        return None
    tier, shard = tier_of(case.snapshot, case.member), shard_of(case.member)
    for slice_, slice_state in case.progress.slice_states.items():
        if (
            slice_.step in PUSH_STEPS
            and (slice_.step.platform, slice_.tier) == (platform, tier)
            and shard in slice_.shards
        ):
            return slice_state
    return None


def tier_of(snapshot: AudienceSnapshot, member: Member) -> Tier:
    """Return the tier of a member. Members in no tier bitmap are dormant, or not in the audience."""
    return next((tier for tier in TIERS if contains(snapshot.tiers[tier], member)), Tier.DORMANT)
