"""Explains the alerts of one burst and user, per push provider.

The send log decides. If it has no entry for the user, the current state does.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from notifier.domain.audience.bitmap import holds, shard_of
from notifier.domain.audience.snapshot import PUSHED, Seal
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact, SliceState, State
from notifier.domain.delivery.slice import PHONES
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.send_log import WORTH, AlertOutcome, FailedAttempt, Try, Why, Window
from notifier.domain.users.visibility import HiddenReason, Unpushed, Viewer, denied, unpushed

# Devices in the send log. It names only devices that did not accept their alert at the first attempt.


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Latest state of one device in the send log."""

    device: DeviceId
    fate: AlertOutcome | None = None
    """Result of the last failed attempt. None: the last attempt did not fail, or is still running."""
    going: bool = False
    """An attempt is running, or its worker crashed."""
    tries: int
    """Failed attempts."""
    until: datetime | None = None
    """Earliest time of the next attempt. None: there is none."""
    worth_until: datetime | None = None
    """Latest time of the next attempt. None: as long as the slice is active."""
    reason: str | None = None

    @property
    def unsent(self) -> bool:
        """Whether nothing was sent yet, because the circuit breaker of its provider or push service was open."""
        return self.fate is AlertOutcome.HELD and not self.tries

    @property
    def took(self) -> bool:
        """Whether the device accepted the alert after failed attempts."""
        return self.fate is None and not self.going


def noted(windows: Sequence[Window], member: Member) -> Sequence[Noted]:
    """Return the latest state of each device of the member. `windows` must be in their order."""
    latest: dict[DeviceId, Noted] = {}
    for window in windows:
        for tried in window.again:
            if tried.member == member:
                latest[tried.device] = Noted(device=tried.device, going=window.missed is None, tries=tried.tries)
        for missed in window.missed or ():
            if missed.tried.member == member:
                latest[missed.tried.device] = _missed(missed)
    return list(latest.values())


def over(devices: Sequence[Noted]) -> Sequence[Noted]:
    """Return the same devices without further attempts."""
    return [replace(device, until=None) for device in devices]


def named(window: Window, member: Member) -> Iterator[Try]:
    """Yield the attempts in this batch that belong to devices of the member."""
    yield from (tried for tried in window.again if tried.member == member)
    yield from (missed.tried for missed in window.missed or () if missed.tried.member == member)


def _missed(missed: FailedAttempt) -> Noted:
    tried = missed.tried
    return Noted(
        device=tried.device,
        fate=missed.fate,
        tries=tried.tries,
        until=missed.at,
        worth_until=tried.first + WORTH if tried.tries else None,
        reason=missed.reason,
    )


class AlertState(StrEnum):
    """State of the alert of one user by one provider."""

    SENT = "sent"
    """Sent. Devices that did not accept it at once are listed with their state."""
    TRIED = "tried"
    """No device is known to have accepted it, and it isn't retried."""
    AGAIN = "again"
    """It will be retried for at least one device."""
    ON_ITS_WAY = "on_its_way"
    """Being sent. If its worker crashed meanwhile, it may have arrived, and is sent again."""
    UNKNOWN = "unknown"
    """Its worker crashed while sending, and it isn't sent again. It may have arrived."""
    SILENT = "silent"
    """A rule permanently suppressed it when it was due."""
    SPARED = "spared"
    """The current state suppresses it."""
    WAITING = "waiting"
    TO_COME = "to_come"
    """Its slice is planned, in flight or parked."""
    NEVER = "never"


class ExplainRule(StrEnum):
    """Reasons that only this command knows. Others come from the domain."""

    TAKEN_BACK = "taken_back"
    QUIET_HOURS = "quiet_hours"
    PROVIDER = "provider"
    ROW_ONLY = "row_only"
    PULL_ONLY = "pull_only"
    NOT_SEALED = "not_sealed"
    NO_PROVIDER = "no_provider"
    NO_PHONE = "no_phone"
    NOT_ASKED = "not_asked"
    LATE = "late"
    DEAD = "dead"
    PASSED = "passed"


Reason = Why | Unpushed | HiddenReason | ExplainRule | State


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One burst and one user, with everything that is recorded about both."""

    burst: Burst
    viewer: Viewer
    member: Member
    seal: Seal | None
    """Audience snapshot of the user's shard."""
    account: BurstProgress | None
    """Ledger of the burst."""
    devices: Sequence[Device]
    """Current devices of the user."""
    windows: Mapping[Platform, Sequence[Window]]
    """Send batches of the user's shard, for all tiers."""
    now: datetime
    throttles: Collection[str] = ()
    """Ids of the throttles that hold work back now."""
    pushed: Collection[Tier] = PUSHED
    """Tiers that get alerts by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """The alert of a user by one provider, and why it has its state."""

    platform: Platform
    told: AlertState
    rule: Reason | None = None
    at: datetime | None = None
    """Time of the first attempt, or of the suppression."""
    until: datetime | None = None
    """Earliest time of the next attempt."""
    stands_for: int = 1
    """Number of bursts that the alert covers. More than one: it is a summary."""
    taken: bool = True
    """Whether a device has received it, or may have."""
    devices: Sequence[Noted] = ()


def alertings(case: Case) -> Sequence[Alerting]:
    """Return the alert of each provider for which the user has a device or an entry in the send log."""
    held = {device.platform for device in case.devices}
    return [_alerting(case, platform) for platform in Platform if platform in held or any(_windows(case, platform))]


def _windows(case: Case, platform: Platform) -> Iterator[Window]:
    """Yield the send batches of the provider that contain the user, in their order."""
    for window in sorted(case.windows.get(platform, ()), key=lambda window_: (window_.at, window_.n)):
        if holds(window.people, case.member) or any(named(window, case.member)):
            yield window


def _alerting(case: Case, platform: Platform) -> Alerting:
    windows = list(_windows(case, platform))
    if not windows:
        return _to_be_told(case, platform)
    for reason, people in windows[0].silent.items():
        if holds(people, case.member):
            return Alerting(platform=platform, told=AlertState.SILENT, rule=reason, at=windows[0].at)
    return _sent(case, platform, windows)


def _to_be_told(case: Case, platform: Platform) -> Alerting:
    state, rule, until = _untold(case, platform)
    return Alerting(platform=platform, told=state, rule=rule, until=until)


def _stands_for(case: Case, first: Window) -> int:
    return 1 + len(first.tells(case.member))


def _sent(case: Case, platform: Platform, windows: Sequence[Window]) -> Alerting:
    """Return the state of an alert that is in the send log.

    Suppressed users get no retries. In quiet hours, retries wait for their end, unless the retry window closes earlier.
    """
    first, slice_state, rule = windows[0], _standing(case, platform), _spared(case)
    ended = rule is not None or (slice_state is not None and slice_state.ended is not None)
    devices = noted(windows, case.member)
    taken = _taken(case, platform, first, devices)
    if not taken and all(device.unsent for device in devices):
        return replace(_to_be_told(case, platform), stands_for=_stands_for(case, first), devices=over(devices))
    pending = [at for device in devices if (at := _again(case, device)) is not None]
    slept = not pending and any(device.until is not None for device in devices)
    state = AlertState.AGAIN if pending and not ended else AlertState.SENT if taken else AlertState.TRIED
    if any(window.missed is None for window in windows):
        state = AlertState.UNKNOWN if ended else AlertState.ON_ITS_WAY
    return Alerting(
        platform=platform,
        told=state,
        rule=rule or ExplainRule.QUIET_HOURS if slept else rule if pending else None,
        at=first.at,
        until=min(pending) if pending and not ended else None,
        stands_for=_stands_for(case, first),
        taken=taken,
        devices=over(devices) if ended or slept else devices,
    )


def _taken(case: Case, platform: Platform, first: Window, devices: Sequence[Noted]) -> bool:
    """Return whether a device of the user has accepted the alert, or may have.

    Devices without an entry accepted it at the first attempt. If there are no entries at all, so did devices that the
    user no longer has.
    """
    noted_devices = {device.device for device in devices}
    at_once = [device for device in case.devices if device.platform is platform and device.registered_at <= first.at]
    unnoted = any(device.id not in noted_devices for device in at_once)
    return not devices or unnoted or any(device.took or device.fate is AlertOutcome.UNKNOWN for device in devices)


def _again(case: Case, one: Noted) -> datetime | None:
    """Return when the device is tried again: after quiet hours, or None if the retry window closes before."""
    if one.until is None:
        return None
    at = max(one.until, _wakes(case) or one.until)
    return at if one.worth_until is None or at <= one.worth_until else None


def _wakes(case: Case) -> datetime | None:
    """Return when alerts that quiet hours hold back are due, or None outside quiet hours."""
    return case.viewer.overall.looked_for_at(case.burst, case.now)


_Told = tuple[AlertState, Reason, datetime | None]


def _untold(case: Case, platform: Platform) -> _Told:
    """Explain an alert without an entry in the send log.

    Checks the decisions on the burst first, then the audience snapshot, the current state, and the slice.
    """
    burst, seal = case.burst, case.seal
    if burst.verdict is not Verdict.ALL:
        return AlertState.NEVER, ExplainRule.ROW_ONLY, None
    if burst.pull_only:
        return AlertState.NEVER, ExplainRule.PULL_ONLY, None
    if seal is not None and not holds(seal.push, case.member):
        return _left_out(case, seal)
    if case.account is not None and platform not in case.account.plan.platforms:
        return AlertState.NEVER, ExplainRule.NO_PROVIDER, None
    if (reason := _spared(case)) is not None:
        return AlertState.SPARED, reason, None
    return _unsealed(case) if seal is None else _to_come(case, platform)


def _spared(case: Case) -> Unpushed | HiddenReason | ExplainRule | None:
    reason = unpushed(case.burst, case.viewer, now=case.now)
    return ExplainRule.TAKEN_BACK if reason is None and case.burst.silent else reason


def _left_out(case: Case, seal: Seal) -> _Told:
    """Explain why the audience snapshot left the user out of alerts, which it does not record.

    Considers only current facts that may already have been true then.
    """
    tier, overall = tier_of(seal, case.member), case.viewer.overall
    if not overall.alerts:
        return AlertState.SPARED, Unpushed.ALERTS_OFF, None
    if tier is Tier.DORMANT and (reason := denied(case.burst, case.viewer, now=case.now)) is not None:
        return AlertState.SPARED, reason, None
    if tier not in case.pushed and overall.push is None:
        return AlertState.NEVER, ExplainRule.NOT_ASKED, None
    return AlertState.NEVER, ExplainRule.NO_PHONE, None


def _unsealed(case: Case) -> _Told:
    if case.account is not None and case.account.settled:
        return AlertState.NEVER, ExplainRule.NOT_SEALED, None
    return AlertState.TO_COME, State.PLANNED, None


def _to_come(case: Case, platform: Platform) -> _Told:
    slice_state, wakes_at = _standing(case, platform), _wakes(case)
    if slice_state is not None and slice_state.ended is not None:
        # No entry in the send log: the user had no device, or was suppressed for a reason that no longer applies.
        rule = {Fact.PULLED: ExplainRule.LATE, Fact.DEAD: ExplainRule.DEAD}.get(
            slice_state.ended.fact, ExplainRule.PASSED
        )
        return AlertState.NEVER, rule, None
    if wakes_at is not None:
        return AlertState.WAITING, ExplainRule.QUIET_HOURS, wakes_at
    if slice_state is None:
        return AlertState.TO_COME, State.PLANNED, None
    if slice_state.waits(case.now):
        return AlertState.WAITING, ExplainRule.PROVIDER, slice_state.waits_until
    return AlertState.TO_COME, slice_state.state(case.now, throttles=case.throttles), None


def _standing(case: Case, platform: Platform) -> SliceState | None:
    """Return the state of the slice that sends the user's alerts by this provider."""
    if case.account is None or case.seal is None:
        return None
    tier, shard = tier_of(case.seal, case.member), shard_of(case.member)
    for slice_, slice_state in case.account.standings.items():
        if slice_.step in PHONES and (slice_.step.platform, slice_.tier) == (platform, tier) and shard in slice_.shards:
            return slice_state
    return None


def tier_of(seal: Seal, member: Member) -> Tier:
    """Return the tier of a member. Members in no tier bitmap are dormant, or not in the audience."""
    return next((tier for tier in TIERS if holds(seal.tiers[tier], member)), Tier.DORMANT)
