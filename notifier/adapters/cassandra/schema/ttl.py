"""How long rows live: each is written with what is left of its time, so that all that hangs on a burst ends with it."""

from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import RETENTION

KEPT = RETENTION + timedelta(days=1)
"""Of what must not end before its burst does."""
FINAL = (datetime(2200, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
"""A write timestamp after all others: what is blanked stays so."""


def seconds_until(end: datetime, now: datetime) -> int:
    """What a TTL is bound to; below 1 there is nothing to write, and Cassandra would take a 0 for `for ever`."""
    return (end - now) // timedelta(seconds=1)
