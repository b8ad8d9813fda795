"""When something is due again that is done every so often."""

from datetime import datetime, timedelta

STALE = timedelta(minutes=15)
"""After its opening; what rings later is no news."""


REACH = timedelta(hours=24)
"""A night, or a day without a provider: what opened before that rings no more, for any of the phones' pools."""


def due(before: datetime | None, every: timedelta, now: datetime) -> bool:
    """A clock that was set back makes everything due: nothing stands still until it has caught up."""
    return before is None or not before <= now < before + every


# Back-off: how long to wait before the next try, longer each time and never all at once.

FIRST = timedelta(seconds=10)
"""The least that a provider gets to recover: FCM asks for so much after a 500 or 503, and the others for no more."""
LONGEST = timedelta(minutes=10)
"""Three tries have to fit into the half hour in which an alert is still worth one."""


def backoff(attempt: int, chance: float, *, first: timedelta = FIRST, longest: timedelta = LONGEST) -> timedelta:
    """Before the try that follows `attempt` earlier ones, counted from 0.

    From the step up to twice the step ("equal jitter"), so that what failed together doesn't come back together, and
    yet nobody comes back at once; steps double up to half of `longest`. `chance` is the caller's, from 0 up to 1.
    """
    step = min(longest / 2, first * 2.0 ** min(max(attempt, 0), 32))
    return step * (1 + chance)
