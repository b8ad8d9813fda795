"""Provider rate limit: alerts per second to one provider, shared by all workers.

The limit is a token bucket that holds the tokens of one second. The rate ramps up slowly, is cut when the provider
refuses alerts or slows down, and recovers by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from notifier.domain.ids import Platform
from notifier.domain.token_bucket import TokenBucket

RAMP_FLOOR = 0.05
"""Share of the limit at the start of the ramp: about 500 alerts a second at Google, 2 seconds for 1,000 VIPs."""
P0_RESERVE = 0.25
"""Share of the bucket that is reserved for P0 alerts."""
MIN_P0_SLOWDOWN = 0.5
"""Lowest slowdown factor of P0 alerts. They are few, so they keep half of the rate however slow the inbox is."""
REFUSAL_FACTOR, SLOWNESS_FACTOR = 0.5, 0.8
"""Factors that reduce the share after a refusal, and after slow answers."""
MIN_SHARE = 0.01
"""Lowest share of the limit, however often a provider refuses alerts."""
RECOVERY_PER_SECOND = 0.05
"""Share of the limit regained per second: ten seconds after one refusal the rate is back."""
MIN_CUT_INTERVAL = timedelta(seconds=1)
"""Shortest time between two cuts. A provider refuses all alerts in flight together, which counts as one signal."""

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimit:
    per_minute: int
    """Maximum number of alerts to the provider in any minute, from all workers."""
    ramp: timedelta = timedelta(seconds=60)
    """Time from the floor to the full rate. Google asks for at least 60 seconds."""
    idle: timedelta = timedelta(minutes=5)
    """After this time without use the ramp starts again."""

    @property
    def per_second(self) -> float:
        """Return the rate that keeps any minute within the limit.

        One minute may spend a full bucket (one second's tokens), the tokens of 60 seconds, and one alert on credit.
        """
        return (self.per_minute - 1) / 61

    def shared(self, workers: int) -> "ProviderLimit":
        """Return the part of the limit that each of so many workers may use."""
        return replace(self, per_minute=self.per_minute // workers)


PROVIDER_LIMITS: Mapping[Platform, ProviderLimit] = {
    # Default quota of a Google project.
    Platform.FCM: ProviderLimit(per_minute=600_000),
    # Apple publishes no limit. This is twice Google's, and far more than one machine sends.
    Platform.APNS: ProviderLimit(per_minute=1_200_000),
    # Many push services with unpublished limits. This is less than one core can send.
    Platform.WEB: ProviderLimit(per_minute=300_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRate:
    """State of one provider's rate limit."""

    bucket: TokenBucket
    """Holds up to the tokens of one second. Their number may be negative after a draw on credit."""
    since: datetime
    """Start of the ramp."""
    share: float = 1.0
    """Share of the limit that refusals and slow answers leave."""
    cut_at: datetime | None = None


def draw(
    rate: ProviderRate | None,
    limit: ProviderLimit,
    now: datetime,
    wanted: int,
    *,
    is_p0: bool,
    slowdown_factor: float = 1.0,
) -> tuple[ProviderRate, int]:
    """Return the rate after the draw, and how many alerts may be sent.

    A `slowdown_factor` of 1 is the full rate; at 0.5 each alert costs two tokens; at 0 only P0 alerts are sent. If
    the caller's tokens are too few for one alert, one is sent on credit: a low rate must not stop alerts completely.
    """
    rate = _brought_up_to(rate, limit, now)
    slowdown_factor = max(slowdown_factor, MIN_P0_SLOWDOWN) if is_p0 else slowdown_factor
    free = rate.bucket.tokens - (0.0 if is_p0 else P0_RESERVE * alerts_per_second(rate, limit))
    if min(wanted, free, slowdown_factor) <= 0:
        return rate, 0
    granted = min(wanted, max(1, int(free * slowdown_factor)))
    return replace(rate, bucket=rate.bucket.spent(granted / slowdown_factor)), granted


def report_results(
    rate: ProviderRate | None, limit: ProviderLimit, now: datetime, *, refused_count: int, is_slow: bool
) -> ProviderRate:
    """Return the rate after the results of some alerts.

    `refused_count` is the number of alerts that the provider did not take.
    """
    rate = _brought_up_to(rate, limit, now)
    factor = REFUSAL_FACTOR if refused_count else SLOWNESS_FACTOR if is_slow else 1.0
    if factor == 1.0 or (rate.cut_at is not None and rate.bucket.at < rate.cut_at + MIN_CUT_INTERVAL):
        return rate
    cut = replace(rate, share=max(MIN_SHARE, rate.share * factor), cut_at=rate.bucket.at)
    return replace(cut, bucket=cut.bucket.lowered(alerts_per_second(cut, limit)))


def alerts_per_second(rate: ProviderRate, limit: ProviderLimit) -> float:
    """Return the current rate per second, which is also the capacity of the bucket."""
    ramp_share = RAMP_FLOOR + (1 - RAMP_FLOOR) * ((rate.bucket.at - rate.since) / limit.ramp)
    return limit.per_second * rate.share * max(RAMP_FLOOR, min(1.0, ramp_share))


def _brought_up_to(rate: ProviderRate | None, limit: ProviderLimit, now: datetime) -> ProviderRate:
    """Bring the rate up to date.

    A clock that is slightly behind changes nothing. A time that differs by more than `idle` restarts the ramp.
    """
    if rate is None:
        return _starting_rate(limit, now, inf)
    bucket = rate.bucket
    if not bucket.at - limit.idle <= now <= bucket.at + limit.idle:
        return _starting_rate(limit, now, bucket.tokens)
    seconds = bucket.elapsed(now) / _SECOND
    # The rate at the end of the elapsed time applies to all of it.
    share = min(1.0, rate.share + RECOVERY_PER_SECOND * seconds)
    current = replace(rate, bucket=replace(bucket, at=max(bucket.at, now)), share=share)
    per_second = alerts_per_second(current, limit)
    return replace(current, bucket=bucket.topped_up(per_second * seconds, per_second, now))


def _starting_rate(limit: ProviderLimit, now: datetime, tokens: float) -> ProviderRate:
    empty = ProviderRate(bucket=TokenBucket(tokens=0.0, at=now), since=now)
    return replace(empty, bucket=TokenBucket(tokens=max(0.0, min(tokens, alerts_per_second(empty, limit))), at=now))


# Slowdown: alerts make users open the inbox, so a slow inbox reduces the alert rate.

SLOW_INBOX_LATENCY = timedelta(milliseconds=50)
"""99th percentile of the page latency above which alerts slow down: a few times that of an idle system."""
STUCK_INBOX_LATENCY = 4 * SLOW_INBOX_LATENCY
"""Latency at which the slowdown is greatest."""
MIN_SLOWDOWN = 0.05
"""Lowest slowdown factor. Zero would let users who are browsing anyway block all other users' alerts."""


def slowdown(inbox_latency: timedelta | None, backpressure: float) -> float:
    """Return the slowdown factor, from 1 (none) down to MIN_SLOWDOWN.

    `inbox_latency` is the page latency of the slowest process, or None if unknown. `backpressure` is the monitor's,
    from 0 to 1. The worse of the two decides.
    """
    inbox_load = (
        0.0
        if inbox_latency is None
        else (inbox_latency - SLOW_INBOX_LATENCY) / (STUCK_INBOX_LATENCY - SLOW_INBOX_LATENCY)
    )
    return MIN_SLOWDOWN + (1 - MIN_SLOWDOWN) * (1 - max(0.0, min(1.0, max(inbox_load, backpressure))))
