"""Answers of providers as they come: JSON mostly, and from anybody who stands between."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from notifier.domain.push.receipt import Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import BACKOFF
from notifier.ports.push import Silence


def read(body: bytes) -> Mapping[str, Any]:
    """Empty where it is no object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # no UTF-8, no JSON, a number of a million digits, brackets of a million
        return {}
    return found if isinstance(found, dict) else {}


def name(value: object) -> str:
    """One of a provider's words; empty for what is none."""
    if isinstance(value, str) and len(value) < 64 and value.isascii() and value.replace("_", "").isalnum():
        return value
    return ""


def said(value: object, phrases: Collection[str]) -> Sequence[str]:
    """Which of these, in small letters, stand in what it says for people. Nothing else of that is kept: it goes into
    records and logs, and may repeat a token or an alert's text."""
    sentence = " ".join(value.split()).lower() if isinstance(value, str) else ""
    return [phrase for phrase in phrases if phrase in sentence]


# When to try again: what a provider asks for, or a while that is never the same for two.

Chance = Callable[[], float]
"""From 0 to 1, and never 1 itself."""

LONGEST = timedelta(days=1)
"""A provider that asks for more has lost its clock: nobody wants the alert by then."""


def in_a_while(now: datetime, chance: float) -> datetime:
    """Ten to twenty seconds: what failed at one moment doesn't come back at one moment."""
    return now + BACKOFF.delay(0, chance)


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
