"""When to try again: what a provider asks for, or a while that is never the same for two."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from notifier.domain.push.receipt import Receipt, RetryAt, Unknown
from notifier.domain.timing import backoff
from notifier.ports.http2 import Silence

Chance = Callable[[], float]
"""From 0 to 1, and never 1 itself."""

LONGEST = timedelta(days=1)
"""A provider that asks for more has lost its clock: nobody wants the alert by then."""


def in_a_while(now: datetime, chance: float) -> datetime:
    """Ten to twenty seconds: what failed at one moment doesn't come back at one moment."""
    return now + backoff(0, chance)


def as_asked(headers: Mapping[str, str], now: datetime) -> datetime | None:
    """What Retry-After says: seconds or a date, as RFC 9110 has it; None where it says nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return now + min(timedelta(seconds=int(said[:9])), LONGEST)
    try:
        date = parsedate_to_datetime(said)
    except ValueError:
        return None
    # Without a zone it is said to be in UTC.
    return min(max(date if date.tzinfo else date.replace(tzinfo=UTC), now), now + LONGEST)


def of_silence(silence: Silence, now: datetime, chance: float) -> Receipt:
    if silence.left:
        return Unknown(reason=silence.reason)
    return RetryAt(at=in_a_while(now, chance), reason=silence.reason)
