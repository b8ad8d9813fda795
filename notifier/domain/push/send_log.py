"""Send log: alerts sent for one burst to devices of one shard, by window.

A window is written before it is sent and closed afterwards. So a crash leaves in doubt only the windows that are open:
their devices are tried again, with the same ids. A member is in one window only; later windows name single devices that
are tried again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.bitmap import Bits, holds, nobody
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.device import DeviceId
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from notifier.domain.timing import Backoff

TRIES = 3
WORTH = timedelta(minutes=30)
"""Retry window, from the first failed attempt; afterwards the burst is in the app only.

An attempt that does not count waits as long as its slice does.
"""
BACKOFF = Backoff(first=timedelta(seconds=10), longest=timedelta(minutes=10), jitter=1.0)
"""FCM asks for 10 seconds after a 500 or 503, and no provider asks for more. Three attempts fit into the half hour in
which an alert is worth one."""


@dataclass(frozen=True, slots=True, order=True)
class Sending:
    """Key of a send log."""

    burst: BurstKey
    tier: Tier
    shard: int
    platform: Platform


class Why(StrEnum):
    """Reason why a member in a window gets nothing."""

    HOURLY = "hourly"
    DAILY = "daily"
    SAME_TWEET = "same_tweet"
    """The member already got an alert for this tweet, as a follower of another account."""
    COLLAPSED = "collapsed"
    """The alert of a newer burst of the subject covers this one. It was sent before."""


Olders = tuple[int, ...]
"""Numbers of older bursts of the subject, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """State of the attempts to alert one device."""

    device: DeviceId
    member: Member
    first: datetime
    """Time of the first failed attempt; before that, when the window was written."""
    tries: int = 0
    """Failed attempts."""
    away: int = 0
    """Bursts that a late alert covers, its own included; 0 if the alert is in time."""


class AlertOutcome(StrEnum):
    """Why a device did not accept an alert, and what happens next."""

    RETRY = "retry"
    HELD = "held"
    """Not sent: the circuit breaker of its provider or push service was open."""
    UNKNOWN = "unknown"
    """It may have arrived. Sent again with the same ids."""
    DROPPED = "dropped"
    REFUSED = "refused"
    GIVEN_UP = "given_up"
    SPARED = "spared"
    """Not sent again: alerts of the member are suppressed by now, or the device belongs to another member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An alert that one device did not accept."""

    tried: Try
    fate: AlertOutcome
    at: datetime | None = None
    """Earliest time of the retry; None if there is none."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A batch of alerts. It is written before it is sent, and closed afterwards."""

    n: int
    at: datetime
    """When it was written. Nothing of it was sent earlier."""
    people: Bits = field(default_factory=nobody)
    """Members who are in a window for the first time."""
    away: Mapping[Olders, Bits] = field(default_factory=dict)
    """Members whose alert is a summary, by the older bursts that it covers. Each member is in one set at most."""
    silent: Mapping[Why, Bits] = field(default_factory=dict)
    """Members that are sent nothing, by reason."""
    again: tuple[Try, ...] = ()
    """Devices that are tried again."""
    missed: tuple[FailedAttempt, ...] | None = None
    """Attempts not accepted. None while the window is open: it is being sent, or its worker crashed."""

    @property
    def told(self) -> Bits:
        """Return the new members of this window that are sent an alert."""
        members = self.people
        for bits in self.silent.values():
            members = members & ~bits
        return members

    def tells(self, member: Member) -> Olders:
        """Return the older bursts that this member's alert covers."""
        return next((olders for olders, bits in self.away.items() if holds(bits, member)), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of one send log, from all of its windows."""

    intended: Bits = field(default_factory=nobody)
    """Members in any window."""
    told: Bits = field(default_factory=nobody)
    """Members in a window that sends them something."""
    broken: tuple[Window, ...] = ()
    """Windows that were never closed: a worker crashed over them."""
    waiting: Mapping[DeviceId, FailedAttempt] = field(default_factory=dict)
    """Devices to be tried again."""
    windows: int = 0


NOTHING_SENT = Progress()


def progress(windows: Sequence[Window]) -> Progress:
    """Combine the windows of one send log, given in their order."""
    intended, alerted = nobody(), nobody()
    waiting: dict[DeviceId, FailedAttempt] = {}
    for window in windows:
        intended, alerted = intended | window.people, alerted | window.told
        for tried in window.again:
            waiting.pop(tried.device, None)
        for missed in window.missed or ():
            if missed.at is not None:
                waiting[missed.tried.device] = missed
    return Progress(
        intended=intended,
        told=alerted,
        broken=tuple(window for window in windows if window.missed is None),
        waiting=waiting,
        windows=max((window.n + 1 for window in windows), default=0),
    )


def missed(tried: Try, receipt: Receipt, now: datetime, chance: float) -> FailedAttempt | None:
    """Return what to record for a receipt; None if the alert was accepted. `tried` is the state before this attempt."""
    spent = _spent(tried, now)
    match receipt:
        case Accepted():
            return None
        case DropToken(reason=reason):
            return FailedAttempt(tried=spent, fate=AlertOutcome.DROPPED, reason=reason)
        case PayloadError(reason=reason):
            return FailedAttempt(tried=spent, fate=AlertOutcome.REFUSED, reason=reason)
        case RetryAt(at=at, reason=reason):
            return later(spent, AlertOutcome.RETRY, max(at, now + BACKOFF.delay(tried.tries, chance)), reason)
        case Unknown(reason=reason):
            return later(spent, AlertOutcome.UNKNOWN, now + BACKOFF.delay(tried.tries, chance), reason)
        case ConfigError(reason=reason, part=part) if part:
            # The provider works for other devices, so no breaker opens: count the attempt, or it would never end.
            return later(spent, AlertOutcome.RETRY, now + BACKOFF.delay(tried.tries, chance), reason)
        case ConfigError(reason=reason):
            # Our own configuration is at fault: this counts as no attempt, and the breaker decides about the next one.
            return later(tried, AlertOutcome.RETRY, now + BACKOFF.delay(0, chance), reason)


def in_doubt(tried: Try, now: datetime) -> FailedAttempt:
    """Count an attempt whose worker crashed. Its retry window opens when the crash is found, if not before."""
    spent, reason = _spent(tried, now), "whoever sent it ended over it"
    if spent.tries >= TRIES:
        return FailedAttempt(tried=spent, fate=AlertOutcome.GIVEN_UP, reason=reason)
    return FailedAttempt(tried=spent, fate=AlertOutcome.UNKNOWN, at=now, reason=reason)


def later(tried: Try, fate: AlertOutcome, at: datetime, reason: str) -> FailedAttempt:
    """Schedule a retry, or give up: after three attempts or half an hour the alert is in the app only."""
    if tried.tries >= TRIES or is_over(tried, at):
        return FailedAttempt(tried=tried, fate=AlertOutcome.GIVEN_UP, reason=reason)
    return FailedAttempt(tried=tried, fate=fate, at=at, reason=reason)


def is_over(tried: Try, at: datetime) -> bool:
    """Return whether the retry window has closed at `at`.

    It opens at the first failed attempt. Attempts never sent, or refused because of our configuration, do not count.
    """
    return tried.tries > 0 and at > tried.first + WORTH


def _spent(tried: Try, now: datetime) -> Try:
    return replace(tried, tries=tried.tries + 1, first=tried.first if tried.tries else now)
