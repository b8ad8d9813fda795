"""Drafts: batches of alerts that are to be opened or closed in the send log."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, from_offsets, no_members
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import is_late
from notifier.domain.ids import Member
from notifier.domain.push.device import Device
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.send_log import (
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    OlderBursts,
    SendBatch,
    SendLogKey,
    SilentReason,
    failure_in_doubt,
    is_retry_window_over,
)
from notifier.domain.push.shard_state import ShardState

_CAP_REASONS: Mapping[Ruling, SilentReason] = {
    Ruling.HOURLY: SilentReason.HOURLY,
    Ruling.DAILY: SilentReason.DAILY,
    Ruling.SAME_TWEET: SilentReason.SAME_TWEET,
}
_NO_LONGER_ALLOWED = "the user must not be alerted any more, or no longer has the device"
_TOO_LATE = "the retry window of half an hour closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAttempt:
    """One device to send to, with the state of its attempts."""

    device: Device
    state: AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch of the send log with its devices."""

    log_key: SendLogKey
    batch: SendBatch
    attempts: Sequence[SendAttempt]
    """Sorted by member."""
    is_in_doubt: bool = False
    """The batch is in the send log already, and was left open. Nothing of it is sent now."""

    @property
    def members(self) -> Sequence[Member]:
        return sorted({attempt.state.member for attempt in self.attempts})

    @property
    def is_first_alert(self) -> bool:
        """Return whether the draft has members that are in no earlier batch. Only such drafts are subject to caps."""
        return not self.is_in_doubt and bool(self.batch.members.any())

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write or close."""
        return not (self.is_in_doubt or self.attempts or self.batch.retries or self.batch.members.any())

    def capped(self, rulings: Mapping[Member, Ruling]) -> "Draft":
        """Return the draft without attempts for members that the caps reject. They stay in the batch, as silent."""
        silent = dict[SilentReason, Bits]()
        for cap, cap_reason in _CAP_REASONS.items():
            if capped := [member for member, ruling in rulings.items() if ruling is cap]:
                silent[cap_reason] = member_bits(capped)
        if not silent:
            return self
        batch = replace(self.batch, silent={**self.batch.silent, **silent})
        alerted = batch.alerted
        attempts = [attempt for attempt in self.attempts if contains(alerted, attempt.state.member)]
        return replace(
            self, batch=replace(batch, summaries=intersect_each(batch.summaries, alerted)), attempts=attempts
        )

    def cut(self, attempt_count: int) -> "Draft":
        """Return the draft cut to about this many attempts, without splitting a member's devices.

        A batch that is already written stays as it is.
        """
        if self.is_in_doubt or len(self.attempts) <= attempt_count:
            return self
        last_member = self.attempts[max(0, attempt_count - 1)].state.member
        attempts = [attempt for attempt in self.attempts if attempt.state.member <= last_member]
        devices = {attempt.device.id for attempt in attempts}
        retries = tuple(attempt_state for attempt_state in self.batch.retries if attempt_state.device in devices)
        mask = from_offsets(range(last_member % SHARD_MEMBERS + 1))
        return replace(self, batch=replace(_masked(self.batch, mask), retries=retries), attempts=attempts)

    def without(self, members: Collection[Member]) -> "Draft":
        """Return the draft without these members. Nothing is recorded for them, so they are tried later."""
        if not members:
            return self
        attempts = [attempt for attempt in self.attempts if attempt.state.member not in members]
        removed = {attempt.device.id for attempt in self.attempts if attempt.state.member in members}
        retries = tuple(attempt_state for attempt_state in self.batch.retries if attempt_state.device not in removed)
        return replace(
            self, batch=replace(_masked(self.batch, ~member_bits(members)), retries=retries), attempts=attempts
        )

    def results_without_sending(self) -> Iterator[FailedAttempt]:
        """Yield attempts whose result needs no sending: in doubt, no longer allowed, or too late."""
        if self.batch.failures:
            yield from self.batch.failures
            return
        attempted = {attempt.device.id for attempt in self.attempts}
        for attempt_state in self.batch.retries:
            if attempt_state.device not in attempted:
                is_over = is_retry_window_over(attempt_state, self.batch.at)
                outcome, reason = (
                    (AlertOutcome.GIVEN_UP, _TOO_LATE) if is_over else (AlertOutcome.SUPPRESSED, _NO_LONGER_ALLOWED)
                )
                yield FailedAttempt(state=attempt_state, outcome=outcome, reason=reason)


def in_doubt_draft(
    state: ShardState, burst: Burst, batch: SendBatch, devices: Iterable[Device], now: datetime
) -> Draft:
    """Return a draft that closes a batch that was left open. `devices` are those of members who may still be alerted.

    Each alert counts as a failed attempt, and is retried like any other, although it may have arrived. Sending again
    here would ignore quiet hours, and repeat the alerts forever if each worker crashes here.
    """
    attempts = [*batch.retries, *(_first_attempt(burst, device, batch) for device in devices)]
    failures = tuple(failure_in_doubt(attempt_state, now) for attempt_state in attempts)
    return Draft(log_key=state.log_key, batch=replace(batch, failures=failures), attempts=(), is_in_doubt=True)


def first_alert_draft(state: ShardState, burst: Burst, devices: Sequence[Device], number: int, now: datetime) -> Draft:
    """Return a draft of a new batch with the members of these devices. Members in `state.collapsed` get nothing."""
    members = member_bits({device.member for device in devices})
    collapsed = members & state.collapsed
    silent = {SilentReason.COLLAPSED: collapsed} if collapsed.any() else {}
    batch = SendBatch(number=number, at=now, members=members, silent=silent)
    batch = replace(batch, summaries=intersect_each(state.covers, batch.alerted))
    attempts = [
        SendAttempt(device=device, state=_first_attempt(burst, device, batch))
        for device in devices
        if not contains(collapsed, device.member)
    ]
    return Draft(log_key=state.log_key, batch=batch, attempts=attempts)


def within_rate(drafts: Sequence[Draft], granted: int) -> Sequence[Draft]:
    """Return the first drafts, with about the granted number of attempts: see `Draft.cut`."""
    sendable, remaining = list[Draft](), granted
    for draft in drafts:
        if draft.attempts and remaining <= 0:
            break
        sendable.append(draft.cut(remaining))
        remaining -= len(sendable[-1].attempts)
    return sendable


def count_attempts(drafts: Iterable[Draft]) -> int:
    return sum(len(draft.attempts) for draft in drafts)


def member_bits(members: Iterable[Member]) -> Bits:
    offsets = [member % SHARD_MEMBERS for member in members]
    return from_offsets(offsets) if offsets else no_members()


def intersect_each(summaries: Mapping[OlderBursts, Bits], members: Bits) -> Mapping[OlderBursts, Bits]:
    """Return the intersection of each set with these members, without empty ones."""
    intersections = {older_bursts: bits & members for older_bursts, bits in summaries.items()}
    return {older_bursts: bits for older_bursts, bits in intersections.items() if bits.any()}


def _first_attempt(burst: Burst, device: Device, batch: SendBatch) -> AttemptState:
    late_burst_count = 1 + len(batch.covered_by_alert(device.member)) if is_late(burst, batch.at) else 0
    return AttemptState(device=device.id, member=device.member, first_at=batch.at, late_burst_count=late_burst_count)


def _masked(batch: SendBatch, mask: Bits) -> SendBatch:
    return replace(
        batch,
        members=batch.members & mask,
        summaries=intersect_each(batch.summaries, mask),
        silent={reason: bits & mask for reason, bits in batch.silent.items()},
    )
