"""Waits before retries, due times of periodic work, and ages of alerts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

LATE_AFTER = timedelta(minutes=15)
"""Age of a burst above which its alerts are late: they make no sound, and several of a subject become one summary."""


PUSH_LIFETIME = timedelta(hours=24)
"""Age of a burst at which its unsent alerts expire: longer than a night of quiet hours or most provider outages."""


def is_due(last_run: datetime | None, interval: timedelta, now: datetime) -> bool:
    """Return whether periodic work is due. Also True if the clock moved backwards, so the work never stalls."""
    return last_run is None or not last_run <= now < last_run + interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off: how long to wait before the next attempt at something that failed.

    The step doubles with each failure. A delay lies between the step and `1 + jitter` times the step. With a jitter of
    1 ("equal jitter") callers that failed together retry at different times, and none retries immediately.
    """

    first: timedelta
    """Shortest delay, unless `longest` divided by `1 + jitter` is less."""
    longest: timedelta
    """Upper limit of a delay, jitter included."""
    jitter: float = 0.0

    def delay(self, earlier_failure_count: int, random_number: float = 0.0) -> timedelta:
        """Return the delay after a failure. 0 <= `random_number` < 1.

        `earlier_failure_count` is the number of failures in a row before this failure.
        """
        step = min(self.longest / (1 + self.jitter), self.first * 2.0 ** min(max(earlier_failure_count, 0), 32))
        return step * (1 + self.jitter * random_number)
