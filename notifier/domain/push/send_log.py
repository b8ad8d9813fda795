"""Send log: alerts of one burst to one tier, shard and platform, in batches.

A batch is written before it is sent and closed afterwards, so a crash leaves only open batches in doubt. All first
attempts of a member are in one batch; retries of single devices are in later batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.bitmap import Bits, contains, no_members
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.device import DeviceId
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown

MAX_ALERT_ATTEMPTS = 3
RETRY_WINDOW = timedelta(minutes=30)
"""Time after the first failed attempt in which a device is tried again.

As long as no attempt counts as failed, attempts are repeated until their slice expires.
"""
RETRY_BACKOFF = Backoff(first=timedelta(seconds=10), longest=timedelta(minutes=10), jitter=1.0)
"""Waits between attempts; a provider may ask for longer ones. FCM asks for 10 seconds after a 500 or 503."""


@dataclass(frozen=True, slots=True, order=True)
class SendLogKey:
    burst: BurstKey
    tier: Tier
    shard: int
    platform: Platform


class SilentReason(StrEnum):
    """Reason why a member in a batch gets nothing."""

    HOURLY = "hourly"
    DAILY = "daily"
    SAME_TWEET = "same_tweet"
    """The member already got an alert for this tweet."""
    COLLAPSED = "collapsed"
    """The alert of a newer burst of the subject was sent before, and covers this burst."""


OlderBursts = tuple[int, ...]
"""Numbers of older bursts of the subject, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """State of the attempts to alert one device."""

    device: DeviceId
    member: Member
    first_at: datetime
    """Time of the first failed attempt; before that, when the batch was written."""
    failed_attempts: int = 0
    late_burst_count: int = 0
    """Number of bursts that a late alert covers, its own included; 0 if the alert was not late."""


class AlertOutcome(StrEnum):
    """Why an alert to a device did not succeed, and what happens next."""

    RETRY = "retry"
    HELD = "held"
    """Not sent: a circuit breaker held it back."""
    UNKNOWN = "unknown"
    """The alert may have arrived."""
    DROPPED = "dropped"
    REFUSED = "refused"
    GIVEN_UP = "given_up"
    SUPPRESSED = "suppressed"
    """Not sent again: the member's alerts are now suppressed, or the member no longer has the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An alert to one device that did not succeed."""

    state: AttemptState
    outcome: AlertOutcome
    at: datetime | None = None
    """Earliest time of the retry; None if there is none."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch:
    number: int
    at: datetime
    """When the batch was written. Nothing of it was sent earlier."""
    members: Bits = field(default_factory=no_members)
    """Members that enter a batch for the first time."""
    summaries: Mapping[OlderBursts, Bits] = field(default_factory=dict)
    """Members whose alert is a summary, by the older bursts that it covers. Each member is in one set at most."""
    silent: Mapping[SilentReason, Bits] = field(default_factory=dict)
    """Members that are sent nothing, by reason."""
    retries: tuple[AttemptState, ...] = ()
    """Attempts that are due again. Some end without being sent."""
    failures: tuple[FailedAttempt, ...] | None = None
    """Attempts that did not succeed. None while the batch is open."""

    @property
    def is_open(self) -> bool:
        return self.failures is None

    @property
    def alerted(self) -> Bits:
        """Return those of `members` who are sent an alert."""
        members = self.members
        for bits in self.silent.values():
            members = members & ~bits
        return members

    def covered_by_alert(self, member: Member) -> OlderBursts:
        """Return the older bursts that this member's alert covers."""
        return next((older_bursts for older_bursts, bits in self.summaries.items() if contains(bits, member)), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SendProgress:
    """State of one send log, from all of its batches."""

    in_batches: Bits = field(default_factory=no_members)
    """Members in any batch."""
    alerted: Bits = field(default_factory=no_members)
    """Members in a batch that sends them something."""
    open_batches: tuple[SendBatch, ...] = ()
    pending_retries: Mapping[DeviceId, FailedAttempt] = field(default_factory=dict)
    """Devices to be tried again."""
    next_batch_number: int = 0


NOTHING_SENT = SendProgress()


def send_progress(batches: Sequence[SendBatch]) -> SendProgress:
    """Combine the batches of one send log, given in their order."""
    in_batches, alerted = no_members(), no_members()
    pending_retries: dict[DeviceId, FailedAttempt] = {}
    for batch in batches:
        in_batches, alerted = in_batches | batch.members, alerted | batch.alerted
        for attempt_state in batch.retries:
            pending_retries.pop(attempt_state.device, None)
        for failure in batch.failures or ():
            if failure.at is not None:
                pending_retries[failure.state.device] = failure
    return SendProgress(
        in_batches=in_batches,
        alerted=alerted,
        open_batches=tuple(batch for batch in batches if batch.is_open),
        pending_retries=pending_retries,
        next_batch_number=max((batch.number + 1 for batch in batches), default=0),
    )


def failure_of(
    attempt_state: AttemptState, receipt: Receipt, now: datetime, random_number: float
) -> FailedAttempt | None:
    """Return what to record for a receipt; None if the alert was accepted.

    `attempt_state` is the state before this attempt.
    """
    failed = _with_failure(attempt_state, now)
    match receipt:
        case Accepted():
            return None
        case DropDevice(reason=reason):
            return FailedAttempt(state=failed, outcome=AlertOutcome.DROPPED, reason=reason)
        case PayloadError(reason=reason):
            return FailedAttempt(state=failed, outcome=AlertOutcome.REFUSED, reason=reason)
        case RetryAt(at=at, reason=reason):
            return retry_or_give_up(
                failed,
                AlertOutcome.RETRY,
                max(at, now + RETRY_BACKOFF.delay(attempt_state.failed_attempts, random_number)),
                reason,
            )
        case Unknown(reason=reason):
            return retry_or_give_up(
                failed,
                AlertOutcome.UNKNOWN,
                now + RETRY_BACKOFF.delay(attempt_state.failed_attempts, random_number),
                reason,
            )
        case ConfigError(reason=reason, device_group=device_group) if device_group:
            # The provider works for other devices, so no breaker opens. If the attempt did not count, it would be
            # repeated until the slice expires.
            return retry_or_give_up(
                failed,
                AlertOutcome.RETRY,
                now + RETRY_BACKOFF.delay(attempt_state.failed_attempts, random_number),
                reason,
            )
        case ConfigError(reason=reason):
            # Our own configuration is at fault: this counts as no attempt, and the breaker decides about the next one.
            return retry_or_give_up(
                attempt_state, AlertOutcome.RETRY, now + RETRY_BACKOFF.delay(0, random_number), reason
            )


def failure_in_doubt(attempt_state: AttemptState, now: datetime) -> FailedAttempt:
    """Count an attempt as failed because its batch was left open."""
    failed, reason = _with_failure(attempt_state, now), "the worker that sent it did not record the result"
    if failed.failed_attempts >= MAX_ALERT_ATTEMPTS:
        return FailedAttempt(state=failed, outcome=AlertOutcome.GIVEN_UP, reason=reason)
    return FailedAttempt(state=failed, outcome=AlertOutcome.UNKNOWN, at=now, reason=reason)


def retry_or_give_up(attempt_state: AttemptState, outcome: AlertOutcome, at: datetime, reason: str) -> FailedAttempt:
    """Return the attempt with a retry at `at`, or given up after MAX_ALERT_ATTEMPTS or RETRY_WINDOW."""
    if attempt_state.failed_attempts >= MAX_ALERT_ATTEMPTS or is_retry_window_over(attempt_state, at):
        return FailedAttempt(state=attempt_state, outcome=AlertOutcome.GIVEN_UP, reason=reason)
    return FailedAttempt(state=attempt_state, outcome=outcome, at=at, reason=reason)


def is_retry_window_over(attempt_state: AttemptState, at: datetime) -> bool:
    """Return whether the retry window has closed at `at`. It opens at the first failed attempt."""
    return attempt_state.failed_attempts > 0 and at > attempt_state.first_at + RETRY_WINDOW


def _with_failure(attempt_state: AttemptState, now: datetime) -> AttemptState:
    return replace(
        attempt_state,
        failed_attempts=attempt_state.failed_attempts + 1,
        first_at=attempt_state.first_at if attempt_state.failed_attempts else now,
    )
