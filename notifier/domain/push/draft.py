"""Drafts: send log windows before they are written, with their target devices."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, holds, nobody
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import stale
from notifier.domain.ids import Member
from notifier.domain.push.device import Device
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.send_log import (
    AlertOutcome,
    FailedAttempt,
    Olders,
    Sending,
    Try,
    Why,
    Window,
    in_doubt,
    is_over,
)
from notifier.domain.push.shard_state import ShardState

_CAP_REASONS: Mapping[Ruling, Why] = {
    Ruling.HOURLY: Why.HOURLY,
    Ruling.DAILY: Why.DAILY,
    Ruling.SAME_TWEET: Why.SAME_TWEET,
}
_NOT_ALLOWED = "its person is to be told no more, or it is somebody else's"
_TOO_LATE = "half an hour was over before it could be sent again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAttempt:
    """One device to send to, with what is known of earlier attempts."""

    device: Device
    tried: Try


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A window of the send log with its devices."""

    sending: Sending
    window: Window
    attempts: Sequence[SendAttempt]
    """Sorted by member. The devices of one member are never split between two drafts."""
    written: bool = False
    """The window is in the send log, from a worker that died before closing it. Nothing of it is sent."""

    @property
    def members(self) -> Sequence[Member]:
        return sorted({attempt.tried.member for attempt in self.attempts})

    @property
    def is_first_alert(self) -> bool:
        """Return whether it alerts members for the first time. Only then the frequency caps apply."""
        return not self.written and bool(self.window.people.any())

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (self.written or self.attempts or self.window.again or self.window.people.any())

    def capped(self, rulings: Mapping[Member, Ruling]) -> "Draft":
        """Return the draft with members over a cap marked silent. They stay in the window and get nothing."""
        silent = dict[Why, Bits]()
        for over, cap_reason in _CAP_REASONS.items():
            if capped := [member for member, ruling in rulings.items() if ruling is over]:
                silent[cap_reason] = member_bits(capped)
        if not silent:
            return self
        window = replace(self.window, silent={**self.window.silent, **silent})
        alerted = window.told
        attempts = [attempt for attempt in self.attempts if holds(alerted, attempt.tried.member)]
        return replace(self, window=replace(window, away=within(window.away, alerted)), attempts=attempts)

    def cut(self, most: int) -> "Draft":
        """Return at most this many attempts, or those of one member. A written window stays as it is."""
        if self.written or len(self.attempts) <= most:
            return self
        last = self.attempts[max(0, most - 1)].tried.member
        attempts = [attempt for attempt in self.attempts if attempt.tried.member <= last]
        kept = {attempt.device.id for attempt in attempts}
        again = tuple(tried for tried in self.window.again if tried.device in kept)
        mask = from_offsets(range(last % SHARD_MEMBERS + 1))
        return replace(self, window=replace(_masked(self.window, mask), again=again), attempts=attempts)

    def without(self, members: Collection[Member]) -> "Draft":
        """Return the draft without these members. They are in no window, so their alert is still to come."""
        if not members:
            return self
        attempts = [attempt for attempt in self.attempts if attempt.tried.member not in members]
        out = {attempt.device.id for attempt in self.attempts if attempt.tried.member in members}
        again = tuple(tried for tried in self.window.again if tried.device not in out)
        return replace(
            self, window=replace(_masked(self.window, ~member_bits(members)), again=again), attempts=attempts
        )

    def unsent(self) -> Iterator[FailedAttempt]:
        """Yield results known without sending: attempts that a crash left in doubt, and retries not to be sent."""
        if self.window.missed:
            yield from self.window.missed
            return
        attempted = {attempt.device.id for attempt in self.attempts}
        for tried in self.window.again:
            if tried.device not in attempted:
                over = is_over(tried, self.window.at)
                fate, reason = (AlertOutcome.GIVEN_UP, _TOO_LATE) if over else (AlertOutcome.SPARED, _NOT_ALLOWED)
                yield FailedAttempt(tried=tried, fate=fate, reason=reason)


def in_doubt_draft(state: ShardState, burst: Burst, window: Window, devices: Iterable[Device], now: datetime) -> Draft:
    """Close a window that a crash left open. `devices` are those of its members who may still get the alert.

    Any of the alerts may have arrived, so each device counts one attempt without an answer and is retried later.
    Sending again here would ignore quiet hours, and would repeat the alerts forever if every worker crashes here.
    """
    tries = [*window.again, *(_first_try(burst, device, window) for device in devices)]
    missed = tuple(in_doubt(tried, now) for tried in tries)
    return Draft(sending=state.sending, window=replace(window, missed=missed), attempts=(), written=True)


def first_alert_draft(state: ShardState, burst: Burst, devices: Sequence[Device], number: int, now: datetime) -> Draft:
    """Put the members with these devices into a window. Members already covered by a newer alert get nothing."""
    people = member_bits({device.member for device in devices})
    collapsed = people & state.collapsed
    silent = {Why.COLLAPSED: collapsed} if collapsed.any() else {}
    window = Window(n=number, at=now, people=people, silent=silent)
    window = replace(window, away=within(state.covers, window.told))
    attempts = [
        SendAttempt(device=device, tried=_first_try(burst, device, window))
        for device in devices
        if not holds(collapsed, device.member)
    ]
    return Draft(sending=state.sending, window=window, attempts=attempts)


def within_rate(drafts: Sequence[Draft], granted: int) -> Sequence[Draft]:
    """Return the first drafts with as many attempts as the rate limit granted; the last one may be cut."""
    kept, remaining = list[Draft](), granted
    for draft in drafts:
        if draft.attempts and remaining <= 0:
            break
        kept.append(draft.cut(remaining))
        remaining -= len(kept[-1].attempts)
    return kept


def count_attempts(drafts: Iterable[Draft]) -> int:
    return sum(len(draft.attempts) for draft in drafts)


def member_bits(members: Iterable[Member]) -> Bits:
    places = [member % SHARD_MEMBERS for member in members]
    return from_offsets(places) if places else nobody()


def within(covers: Mapping[Olders, Bits], people: Bits) -> Mapping[Olders, Bits]:
    parts = {olders: bits & people for olders, bits in covers.items()}
    return {olders: bits for olders, bits in parts.items() if bits.any()}


def _first_try(burst: Burst, device: Device, window: Window) -> Try:
    away = 1 + len(window.tells(device.member)) if stale(burst, window.at) else 0
    return Try(device=device.id, member=device.member, first=window.at, away=away)


def _masked(window: Window, mask: Bits) -> Window:
    return replace(
        window,
        people=window.people & mask,
        away=within(window.away, mask),
        silent={why: bits & mask for why, bits in window.silent.items()},
    )
