"""What `notifier explain` says of a person's phones, provider by provider: what its windows note of the person, and
where they note nothing, what stands now."""

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

# What the windows of one sending note of a person's devices: those that took their alert at once are in none.


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Of one device, the latest."""

    device: DeviceId
    fate: AlertOutcome | None = None
    """None: its last try was not missed, or is going on."""
    going: bool = False
    tries: int
    """That came to nothing."""
    until: datetime | None = None
    """It is sent to again, and no sooner."""
    worth_until: datetime | None = None
    """And no later; None: for as long as its slice is."""
    reason: str | None = None

    @property
    def unsent(self) -> bool:
        """So far: its line was shut when its turn came."""
        return self.fate is AlertOutcome.HELD and not self.tries

    @property
    def took(self) -> bool:
        """At last."""
        return self.fate is None and not self.going


def noted(windows: Sequence[Window], member: Member) -> Sequence[Noted]:
    """`windows` in their order."""
    found: dict[DeviceId, Noted] = {}
    for window in windows:
        for tried in window.again:
            if tried.member == member:
                found[tried.device] = Noted(device=tried.device, going=window.missed is None, tries=tried.tries)
        for missed in window.missed or ():
            if missed.tried.member == member:
                found[missed.tried.device] = _missed(missed)
    return list(found.values())


def over(devices: Sequence[Noted]) -> Sequence[Noted]:
    """The same, where nothing is sent again."""
    return [replace(one, until=None) for one in devices]


def named(window: Window, member: Member) -> Iterator[Try]:
    """The person's devices of which it says something."""
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
    """How a person's alert by one provider stands."""

    SENT = "sent"
    """With what became of each device of which something is noted."""
    TRIED = "tried"
    """No device took it, as far as is known, and it isn't sent again."""
    AGAIN = "again"
    """To be sent again, to one device or more."""
    ON_ITS_WAY = "on_its_way"
    """Noted as about to be sent; if its worker died over it, it may have arrived, and is sent again."""
    UNKNOWN = "unknown"
    """It was on its way when its worker died, and isn't sent again."""
    SILENT = "silent"
    """Its turn came, and a rule kept it silent for good."""
    SPARED = "spared"
    """By what stands now."""
    WAITING = "waiting"
    TO_COME = "to_come"
    """Its slice is planned, in flight or parked."""
    NEVER = "never"


class ExplainRule(StrEnum):
    """Why, where no decision of the domain's has a name for it."""

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
    """A burst and a person, with all that is recorded of the two."""

    burst: Burst
    viewer: Viewer
    member: Member
    seal: Seal | None
    """Of the person's shard."""
    account: BurstProgress | None
    devices: Sequence[Device]
    """That the person has now."""
    windows: Mapping[Platform, Sequence[Window]]
    """Of the person's shard, of whatever tier."""
    now: datetime
    throttles: Collection[str] = ()
    """Those that hold work back now."""
    pushed: Collection[Tier] = PUSHED
    """The tiers whose people are alerted unless they don't want it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """Of one provider."""

    platform: Platform
    told: AlertState
    rule: Reason | None = None
    at: datetime | None = None
    """When it was sent first, or tried, or kept silent."""
    until: datetime | None = None
    """What is to come comes no sooner."""
    stands_for: int = 1
    """Bursts of which it told as one: more than one is a summary."""
    taken: bool = True
    """Some device has it, or may have."""
    devices: Sequence[Noted] = ()


def alertings(case: Case) -> Sequence[Alerting]:
    """Of each provider that knows a device of the person's, or has a window with the person in it."""
    held = {device.platform for device in case.devices}
    return [_alerting(case, one) for one in Platform if one in held or any(_windows(case, one))]


def _windows(case: Case, platform: Platform) -> Iterator[Window]:
    """The person's, in their order."""
    for window in sorted(case.windows.get(platform, ()), key=lambda one: (one.at, one.n)):
        if holds(window.people, case.member) or any(named(window, case.member)):
            yield window


def _alerting(case: Case, platform: Platform) -> Alerting:
    windows = list(_windows(case, platform))
    if not windows:
        return _to_be_told(case, platform)
    for why, people in windows[0].silent.items():
        if holds(people, case.member):
            return Alerting(platform=platform, told=AlertState.SILENT, rule=why, at=windows[0].at)
    return _sent(case, platform, windows)


def _to_be_told(case: Case, platform: Platform) -> Alerting:
    told, rule, until = _untold(case, platform)
    return Alerting(platform=platform, told=told, rule=rule, until=until)


def _stands_for(case: Case, first: Window) -> int:
    return 1 + len(first.tells(case.member))


def _sent(case: Case, platform: Platform, windows: Sequence[Window]) -> Alerting:
    """Who is spared by now is sent nothing again, and who sleeps is sent it once awake, if it is worth it then."""
    first, standing, rule = windows[0], _standing(case, platform), _spared(case)
    ended = rule is not None or (standing is not None and standing.ended is not None)
    devices = noted(windows, case.member)
    taken = _taken(case, platform, first, devices)
    if not taken and all(one.unsent for one in devices):
        return replace(_to_be_told(case, platform), stands_for=_stands_for(case, first), devices=over(devices))
    pending = [at for one in devices if (at := _again(case, one)) is not None]
    slept = not pending and any(one.until is not None for one in devices)
    told = AlertState.AGAIN if pending and not ended else AlertState.SENT if taken else AlertState.TRIED
    if any(window.missed is None for window in windows):
        told = AlertState.UNKNOWN if ended else AlertState.ON_ITS_WAY
    return Alerting(
        platform=platform,
        told=told,
        rule=rule or ExplainRule.QUIET_HOURS if slept else rule if pending else None,
        at=first.at,
        until=min(pending) if pending and not ended else None,
        stands_for=_stands_for(case, first),
        taken=taken,
        devices=over(devices) if ended or slept else devices,
    )


def _taken(case: Case, platform: Platform, first: Window, devices: Sequence[Noted]) -> bool:
    """Those of which nothing is noted took it at once; of a person who has none by now, those did that are gone."""
    of = {one.device for one in devices}
    at_once = [one for one in case.devices if one.platform is platform and one.registered_at <= first.at]
    unnoted = any(one.id not in of for one in at_once)
    return not devices or unnoted or any(one.took or one.fate is AlertOutcome.UNKNOWN for one in devices)


def _again(case: Case, one: Noted) -> datetime | None:
    """Once the person is awake, unless that is too late."""
    if one.until is None:
        return None
    at = max(one.until, _wakes(case) or one.until)
    return at if one.worth_until is None or at <= one.worth_until else None


def _wakes(case: Case) -> datetime | None:
    """When the person is looked for; None who is awake."""
    return case.viewer.overall.looked_for_at(case.burst, case.now)


_Told = tuple[AlertState, Reason, datetime | None]


def _untold(case: Case, platform: Platform) -> _Told:
    """By what was decided with the burst, then by its seal, then by what stands, then by its slice."""
    burst, seal = case.burst, case.seal
    if burst.verdict is not Verdict.ALL:
        return AlertState.NEVER, ExplainRule.ROW_ONLY, None
    if burst.pull_only:
        return AlertState.NEVER, ExplainRule.PULL_ONLY, None
    if seal is not None and not holds(seal.push, case.member):
        return _left_out(case, seal)
    if case.account is not None and platform not in case.account.plan.platforms:
        return AlertState.NEVER, ExplainRule.NO_PROVIDER, None
    if (why := _spared(case)) is not None:
        return AlertState.SPARED, why, None
    return _unsealed(case) if seal is None else _to_come(case, platform)


def _spared(case: Case) -> Unpushed | HiddenReason | ExplainRule | None:
    why = unpushed(case.burst, case.viewer, now=case.now)
    return ExplainRule.TAKEN_BACK if why is None and case.burst.silent else why


def _left_out(case: Case, seal: Seal) -> _Told:
    """A seal doesn't say why. Of what stands now only that counts which may have stood then."""
    tier, overall = tier_of(seal, case.member), case.viewer.overall
    if not overall.alerts:
        return AlertState.SPARED, Unpushed.ALERTS_OFF, None
    if tier is Tier.DORMANT and (why := denied(case.burst, case.viewer, now=case.now)) is not None:
        return AlertState.SPARED, why, None
    if tier not in case.pushed and overall.push is None:
        return AlertState.NEVER, ExplainRule.NOT_ASKED, None
    return AlertState.NEVER, ExplainRule.NO_PHONE, None


def _unsealed(case: Case) -> _Told:
    if case.account is not None and case.account.settled:
        return AlertState.NEVER, ExplainRule.NOT_SEALED, None
    return AlertState.TO_COME, State.PLANNED, None


def _to_come(case: Case, platform: Platform) -> _Told:
    standing, asleep = _standing(case, platform), _wakes(case)
    if standing is not None and standing.ended is not None:
        # Nobody noted anything of the person: there was no device here, or what spared the person stands no more.
        rule = {Fact.PULLED: ExplainRule.LATE, Fact.DEAD: ExplainRule.DEAD}.get(standing.ended.fact, ExplainRule.PASSED)
        return AlertState.NEVER, rule, None
    if asleep is not None:
        return AlertState.WAITING, ExplainRule.QUIET_HOURS, asleep
    if standing is None:
        return AlertState.TO_COME, State.PLANNED, None
    if standing.waits(case.now):
        return AlertState.WAITING, ExplainRule.PROVIDER, standing.waits_until
    return AlertState.TO_COME, standing.state(case.now, throttles=case.throttles), None


def _standing(case: Case, platform: Platform) -> SliceState | None:
    """Of the slice by which the person's phones ring."""
    if case.account is None or case.seal is None:
        return None
    tier, shard = tier_of(case.seal, case.member), shard_of(case.member)
    for piece, standing in case.account.standings.items():
        if piece.step in PHONES and (piece.step.platform, piece.tier) == (platform, tier) and shard in piece.shards:
            return standing
    return None


def tier_of(seal: Seal, member: Member) -> Tier:
    """Who is in none that a seal names is dormant, or not in the audience at all."""
    return next((tier for tier in TIERS if holds(seal.tiers[tier], member)), Tier.DORMANT)
