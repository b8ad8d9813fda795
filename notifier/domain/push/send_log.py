"""A sending: what was sent of a burst to the devices of one shard's people, window by window.

A window is written before it is sent and closed after it, so that a crash leaves in doubt no more than the windows that
were on their way: who is in them is tried again, with the same ids. Who was in a window is in no later one; a device
that has to be tried again is named in one.
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
from notifier.domain.timing import backoff

TRIES = 3
WORTH = timedelta(minutes=30)
"""After the first of them; then the alert is in the app alone. What cost no try waits for as long as its slice does."""


@dataclass(frozen=True, slots=True, order=True)
class Sending:
    burst: BurstKey
    tier: Tier
    shard: int
    platform: Platform


class Why(StrEnum):
    """Nothing was sent to somebody who could have been told."""

    HOURLY = "hourly"
    DAILY = "daily"
    SAME_TWEET = "same_tweet"
    """Another account's followers were told of the very tweet, this person among them."""
    COLLAPSED = "collapsed"
    """The alert of a later burst of the subject, which was sent by then, tells of this one, too."""


Olders = tuple[int, ...]
"""Older bursts of a subject, by their numbers, from the oldest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """Of one device."""

    device: DeviceId
    member: Member
    first: datetime
    """When the first of its tries came to nothing; before that, when it was noted."""
    tries: int = 0
    """That came to nothing."""
    away: int = 0
    """Of what is late, for how many bursts it stands, its own among them; 0 is the alert of the burst in time."""


class Fate(StrEnum):
    RETRY = "retry"
    HELD = "held"
    """Not sent: its provider, or its push service, is left alone for a while."""
    UNKNOWN = "unknown"
    """It may have arrived; to be sent again, with the same ids."""
    DROPPED = "dropped"
    REFUSED = "refused"
    GIVEN_UP = "given_up"
    SPARED = "spared"
    """Not sent again: its person is to be told no more, or it is somebody else's by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """What became of an alert that wasn't accepted."""

    tried: Try
    fate: Fate
    at: datetime | None = None
    """Not before then, where it is tried again."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    n: int
    at: datetime
    """When it was written; nothing of it was sent before."""
    people: Bits = field(default_factory=nobody)
    """Whose devices are sent to for the first time."""
    away: Mapping[Olders, Bits] = field(default_factory=dict)
    """Those of them whose alert is a summary, by the older bursts of which it tells, too; nobody is in two of them."""
    silent: Mapping[Why, Bits] = field(default_factory=dict)
    """Those of them to whom nothing is sent."""
    again: tuple[Try, ...] = ()
    """Devices that are sent to once more."""
    missed: tuple[Missed, ...] | None = None
    """Whatever was not accepted; None while it is on its way, and after a crash."""

    @property
    def told(self) -> Bits:
        found = self.people
        for bits in self.silent.values():
            found = found & ~bits
        return found

    def tells(self, member: Member) -> Olders:
        """The older bursts of which this member's alert tells, too."""
        return next((olders for olders, bits in self.away.items() if holds(bits, member)), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sending is, by all of its windows."""

    intended: Bits = field(default_factory=nobody)
    """Everybody who is in a window."""
    told: Bits = field(default_factory=nobody)
    """Of them, to whom something was sent."""
    broken: tuple[Window, ...] = ()
    """On their way when their worker was."""
    waiting: Mapping[DeviceId, Missed] = field(default_factory=dict)
    """To be tried again."""
    windows: int = 0


NOTHING_SENT = Progress()


def progress(windows: Sequence[Window]) -> Progress:
    """Of one sending, in their order."""
    intended, told = nobody(), nobody()
    waiting: dict[DeviceId, Missed] = {}
    for window in windows:
        intended, told = intended | window.people, told | window.told
        for tried in window.again:
            waiting.pop(tried.device, None)
        for missed in window.missed or ():
            if missed.at is not None:
                waiting[missed.tried.device] = missed
    return Progress(
        intended=intended,
        told=told,
        broken=tuple(window for window in windows if window.missed is None),
        waiting=waiting,
        windows=max((window.n + 1 for window in windows), default=0),
    )


def missed(tried: Try, receipt: Receipt, now: datetime, chance: float) -> Missed | None:
    """What is to be noted of it; None: it was accepted. `tried` is as it was before."""
    spent = _spent(tried, now)
    match receipt:
        case Accepted():
            return None
        case DropToken(reason=reason):
            return Missed(tried=spent, fate=Fate.DROPPED, reason=reason)
        case PayloadError(reason=reason):
            return Missed(tried=spent, fate=Fate.REFUSED, reason=reason)
        case RetryAt(at=at, reason=reason):
            return later(spent, Fate.RETRY, max(at, now + backoff(tried.tries, chance)), reason)
        case Unknown(reason=reason):
            return later(spent, Fate.UNKNOWN, now + backoff(tried.tries, chance), reason)
        case ConfigError(reason=reason, part=part) if part:
            # No breaker opens for them, as the provider is well, and so their tries have to end.
            return later(spent, Fate.RETRY, now + backoff(tried.tries, chance), reason)
        case ConfigError(reason=reason):
            # No device is to blame, and it has cost it no try; the breaker says when there is another.
            return later(tried, Fate.RETRY, now + backoff(0, chance), reason)


def in_doubt(tried: Try, now: datetime) -> Missed:
    """By the death of whoever sent it. Its half hour begins no sooner than somebody finds it."""
    spent, reason = _spent(tried, now), "whoever sent it ended over it"
    if spent.tries >= TRIES:
        return Missed(tried=spent, fate=Fate.GIVEN_UP, reason=reason)
    return Missed(tried=spent, fate=Fate.UNKNOWN, at=now, reason=reason)


def later(tried: Try, fate: Fate, at: datetime, reason: str) -> Missed:
    """Where three tries or half an hour are over, the alert is in the app alone."""
    if tried.tries >= TRIES or is_over(tried, at):
        return Missed(tried=tried, fate=Fate.GIVEN_UP, reason=reason)
    return Missed(tried=tried, fate=fate, at=at, reason=reason)


def is_over(tried: Try, at: datetime) -> bool:
    """Whether its half hour is by then. It begins with the first try that came to nothing: what was never sent, or not
    taken for a mistake of ours, has lost none of it."""
    return tried.tries > 0 and at > tried.first + WORTH


def _spent(tried: Try, now: datetime) -> Try:
    return replace(tried, tries=tried.tries + 1, first=tried.first if tried.tries else now)
