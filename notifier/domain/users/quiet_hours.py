"""Quiet hours: times without alerts, in the user's time zone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC_ZONE = "UTC"
_DAY = timedelta(days=1)
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A daily span in local time. It may cross midnight, and is empty if start and end are equal."""

    start: time
    end: time


NO_QUIET_HOURS = QuietHours(start=time(), end=time())

WAKE_GRID = timedelta(minutes=15)
"""Deferred slices wake on quarter hours.

In each shard some member's quiet hours end nearly every minute, and a whole slice would be queued for that member.
Most quiet hours end on a quarter hour, and time zones differ by quarters, so most users do not wait longer. All others
get an alert that is a night old up to 15 minutes later. No user is skipped: see
`AccountPreferences.alert_time_after_quiet`.
"""


def is_known_zone(zone: str) -> bool:
    """Return whether the name is an IANA time zone. Zone rules come with the operating system."""
    return _zone(zone) is not None


def time_zone_of(zone: str) -> tzinfo:
    """Return the time zone, or UTC if the name is no longer known."""
    return _zone(zone) or UTC


def is_quiet(zone: str, hours: QuietHours, now: datetime) -> bool:
    """Return whether `now` is within quiet hours.

    Clock changes never split or shorten quiet hours: an ambiguous start means its first moment, an ambiguous end its
    last. A zone that is no longer known counts as UTC.
    """
    return quiet_until(zone, hours, now) is not None


def quiet_until(zone: str, hours: QuietHours, now: datetime) -> datetime | None:
    """Return when the current quiet hours end; None outside quiet hours."""
    if hours == NO_QUIET_HOURS or hours.start == hours.end:
        return None
    local_zone, until = time_zone_of(zone), now
    today = now.astimezone(local_zone).date()
    # Tomorrow's quiet hours may begin before today's end, if they leave out less of a day than the clock change.
    for day in (today - _DAY, today, today + _DAY):
        begins, ends = _quiet_span(local_zone, hours, day)
        until = ends if begins <= until < ends else until
    return until if until > now else None


def next_quarter_hour(wakes: datetime) -> datetime:
    """Round the end of quiet hours up to the next quarter hour."""
    return wakes + (_MIDNIGHT - wakes) % WAKE_GRID


def _quiet_span(zone: tzinfo, hours: QuietHours, day: date) -> tuple[datetime, datetime]:
    """Return start and end of the quiet hours that begin on this day."""
    ends = day if hours.start < hours.end else day + _DAY
    return min(_moments(zone, day, hours.start)), max(_moments(zone, ends, hours.end))


def _moments(zone: tzinfo, day: date, at: time) -> tuple[datetime, datetime]:
    """Return the moments at which the local clock shows this time.

    They differ if the time occurs twice, or is skipped: then they surround the gap.
    """
    local = datetime.combine(day, at, zone)
    return local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    try:
        return UTC if name == UTC_ZONE else ZoneInfo(name)  # UTC works even if the system has no zone rules
    except (ZoneInfoNotFoundError, ValueError, OSError):  # also for a directory's name or an invalid path
        return None
