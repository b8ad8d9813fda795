"""Provider rate limit: alerts per second to one provider, shared by all workers.

A token bucket that fills at the rate that the provider accepts, and holds what one second earns. The rate ramps up
slowly, is cut when the provider refuses alerts or slows down, and recovers by itself. A pace is a value: each draw
returns the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from notifier.domain.ids import Platform
from notifier.domain.token_bucket import TokenBucket

FLOOR = 0.05
"""Share of the limit at the start of the ramp. With Google's 10,000 a second a thousand VIPs take two seconds."""
RESERVED = 0.25
"""Share of the bucket that is reserved for urgent alerts."""
URGENT_EASE = 0.5
"""Lowest slowdown factor of urgent alerts. They are few, so they keep half of the rate however slow the inbox is."""
REFUSED, SLOW = 0.5, 0.8
"""Factors that reduce the share after a refusal for quota, and after slow answers."""
LEAST_SHARE = 0.01
RECOVERED = 0.05
"""Share of the limit regained per second: ten seconds after one refusal the rate is back."""
CUT_EVERY = timedelta(seconds=1)
"""Shortest time between two cuts. All alerts in flight are refused together, and count as one signal."""

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Limits of one provider."""

    per_minute: int
    """Most alerts that the provider accepts in any minute, from all workers."""
    ramp: timedelta = timedelta(seconds=60)
    """Time from the floor to the full rate. Google asks for at least this."""
    idle: timedelta = timedelta(minutes=5)
    """After this time without a draw the ramp starts again."""

    @property
    def per_second(self) -> float:
        """Return the rate that keeps any minute within the limit.

        A minute may spend what one second has saved, what 60 seconds earn, and one alert on credit.
        """
        return (self.per_minute - 1) / 61

    def shared(self, among: int) -> "Terms":
        return replace(self, per_minute=self.per_minute // among)


TERMS: Mapping[Platform, Terms] = {
    # Default quota of a Google project.
    Platform.FCM: Terms(per_minute=600_000),
    # Apple publishes no limit. This is twice Google's, and far more than one machine sends.
    Platform.APNS: Terms(per_minute=1_200_000),
    # Many push services with unpublished limits. This is what one core can encrypt.
    Platform.WEB: Terms(per_minute=300_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """State of one provider's rate limit."""

    bucket: TokenBucket
    """Holds what one second earns. Below zero after a draw on credit."""
    since: datetime
    """Start of the ramp."""
    share: float = 1.0
    """Share of the limit that refusals and slow answers leave."""
    cut_at: datetime | None = None
    """Time of the latest cut."""


def drawn(
    pace: Pace | None, terms: Terms, now: datetime, wanted: int, *, urgent: bool, ease: float = 1.0
) -> tuple[Pace, int]:
    """Return the pace after the draw, and how many alerts may be sent.

    `ease` is the slowdown factor of the inbox, from 0 to 1: at 0.5 each alert costs two tokens. If any tokens are
    available, at least one alert is granted, on credit if necessary. So a small share is slow, but never zero.
    """
    pace = _at(pace, terms, now)
    ease = max(ease, URGENT_EASE) if urgent else ease
    free = pace.bucket.tokens - (0.0 if urgent else RESERVED * rate(pace, terms))
    if min(wanted, free, ease) <= 0:
        return pace, 0
    granted = min(wanted, max(1, int(free * ease)))
    return replace(pace, bucket=pace.bucket.spent(granted / ease)), granted


def told(pace: Pace | None, terms: Terms, now: datetime, *, refused: int, slow: bool) -> Pace:
    """Return the pace after a batch of results.

    `refused` is the number of alerts that the provider refused for quota; `slow` is whether its answers were slow.
    """
    pace = _at(pace, terms, now)
    factor = REFUSED if refused else SLOW if slow else 1.0
    if factor == 1.0 or (pace.cut_at is not None and pace.bucket.at < pace.cut_at + CUT_EVERY):
        return pace
    slower = replace(pace, share=max(LEAST_SHARE, pace.share * factor), cut_at=pace.bucket.at)
    return replace(slower, bucket=slower.bucket.lowered(rate(slower, terms)))


def rate(pace: Pace, terms: Terms) -> float:
    """Return the current rate per second, which is also the capacity of the bucket."""
    risen = FLOOR + (1 - FLOOR) * ((pace.bucket.at - pace.since) / terms.ramp)
    return terms.per_second * pace.share * max(FLOOR, min(1.0, risen))


def _at(pace: Pace | None, terms: Terms, now: datetime) -> Pace:
    """Bring the pace up to date.

    A clock that is slightly behind changes nothing. One that differs by more than `idle` restarts the ramp and adds no
    tokens. So clocks that disagree reduce the rate, and never raise it.
    """
    if pace is None:
        return _begun(terms, now, inf)
    bucket = pace.bucket
    if not bucket.at - terms.idle <= now <= bucket.at + terms.idle:
        return _begun(terms, now, bucket.tokens)
    passed = bucket.elapsed(now) / _SECOND
    # The rate at the end of the elapsed time applies to all of it.
    share = min(1.0, pace.share + RECOVERED * passed)
    later = replace(pace, bucket=replace(bucket, at=max(bucket.at, now)), share=share)
    per_second = rate(later, terms)
    return replace(later, bucket=bucket.topped_up(per_second * passed, per_second, now))


def _begun(terms: Terms, now: datetime, tokens: float) -> Pace:
    empty = Pace(bucket=TokenBucket(tokens=0.0, at=now), since=now)
    return replace(empty, bucket=TokenBucket(tokens=max(0.0, min(tokens, rate(empty, terms))), at=now))


# Slowdown: alerts make users open the inbox, so a slow inbox reduces the alert rate.

TAB = timedelta(milliseconds=50)
"""99th percentile of an inbox page above which alerts slow down: a few times the latency at rest."""
STUCK = 4 * TAB
LEAST = 0.05
"""Never throttle to zero, or users who are browsing anyway would block all other users' alerts."""


def ease(tab: timedelta | None, pressure: float) -> float:
    """Return the slowdown factor, from 1 (none) down to LEAST.

    `tab` is the page latency of the slowest process, or None if unknown. `pressure` is the monitor's, from 0 to 1.
    The worse of the two decides.
    """
    inbox_load = 0.0 if tab is None else (tab - TAB) / (STUCK - TAB)
    return LEAST + (1 - LEAST) * (1 - max(0.0, min(1.0, max(inbox_load, pressure))))
