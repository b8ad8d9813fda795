"""Frequency caps: limit the alerts of one member, and deduplicate by burst and tweet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2s
from typing import Self

from notifier.domain.ids import BurstKey

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CLOCK_TOLERANCE = HOUR
"""Tolerated difference between the clocks of two workers.

Alerts up to this far in the future count. Alerts are kept this much longer than they count.
"""
HISTORY_KEPT_FOR = DAY + CLOCK_TOLERANCE
MIN_REMEMBERED_ALERTS = 100
"""Minimum length of a full history, so that repeats are recognized even with low caps or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapLimits:
    """Maximum number of alerts in any hour and any day; 0 means no limit."""

    hourly: int = 5
    daily: int = 20

    @property
    def max_history_length(self) -> int:
        """Return the length of a full history: at least twice the caps, because the clocks of workers may differ."""
        return max(MIN_REMEMBERED_ALERTS, 2 * self.hourly, 2 * self.daily)


class Ruling(StrEnum):
    """Decision of the frequency caps on one alert."""

    NEW = "new"
    """The alert may be sent, and is counted."""
    AGAIN = "again"
    """Already counted, for example for a device of another platform. Consumes nothing."""
    SAME_TWEET = "same_tweet"
    """The member already got an alert for this tweet, which may mention several accounts that the member follows."""
    HOURLY = "hourly"
    DAILY = "daily"

    @property
    def may_send(self) -> bool:
        return self in (Ruling.NEW, Ruling.AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCause:
    """Burst and tweet of a counted alert, as hashes of eight bytes each, to keep histories small."""

    burst: bytes
    tweet: bytes

    @classmethod
    def of(cls, burst: BurstKey, tweet: str) -> Self:
        return cls(burst=_digest(str(burst)), tweet=_digest(tweet))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAlert:
    at: datetime
    cause: AlertCause


AlertHistory = Sequence[SentAlert]
"""Alerts of one member, the oldest first."""


def ruling_on(history: AlertHistory, cause: AlertCause, now: datetime, caps: CapLimits) -> Ruling:
    """Decide whether an alert for `cause` may be sent now to the member with this history."""
    recent = [alert for alert in history if now - DAY < alert.at <= now + CLOCK_TOLERANCE]
    if any(alert.cause.burst == cause.burst for alert in recent):
        return Ruling.AGAIN
    if any(alert.cause.tweet == cause.tweet for alert in recent):
        return Ruling.SAME_TWEET
    # If both caps are reached, report the daily cap, which lasts longer.
    if caps.daily and len(recent) >= caps.daily:
        return Ruling.DAILY
    if caps.hourly and sum(alert.at > now - HOUR for alert in recent) >= caps.hourly:
        return Ruling.HOURLY
    return Ruling.NEW


def with_alert(history: AlertHistory, cause: AlertCause, now: datetime, caps: CapLimits) -> AlertHistory:
    """Return the history with one more alert, limited by age and number."""
    kept = [alert for alert in history if now - HISTORY_KEPT_FOR < alert.at <= now + CLOCK_TOLERANCE]
    return sorted([*kept, SentAlert(at=now, cause=cause)], key=lambda alert: alert.at)[-caps.max_history_length :]


def _digest(text: str) -> bytes:
    return blake2s(text.encode(), digest_size=8).digest()
