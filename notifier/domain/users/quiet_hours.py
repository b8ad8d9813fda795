"""Quiet hours: times without alerts, in the user's time zone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC_ZONE = "UTC"
_DAY = timedelta(days=1)
_QUARTER_HOUR_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A daily span in local time. It may cross midnight, and is empty if start and end are equal."""

    start: time
    end: time


NO_QUIET_HOURS = QuietHours(start=time(), end=time())

WAKE_INTERVAL = timedelta(minutes=15)
"""Alerts that quiet hours hold back are sent at a multiple of this time, if they can still be sent then.

Without this, a slice would be queued nearly every minute, because the quiet hours of some member end then. Most quiet
hours end on a quarter hour, and time zones differ by quarters of an hour, so for most users nothing changes.
"""


def is_known_zone(zone: str) -> bool:
    """Return whether the name is an IANA time zone."""
    return _zone(zone) is not None


def time_zone_of(zone: str) -> tzinfo:
    """Return the time zone, or UTC if the name is no longer known."""
    return _zone(zone) or UTC


def is_quiet(zone: str, hours: QuietHours, now: datetime) -> bool:
    return quiet_until(zone, hours, now) is not None


def quiet_until(zone: str, hours: QuietHours, now: datetime) -> datetime | None:
    """Return when the current quiet hours end; None outside quiet hours.

    If the local clock shows the start twice, the first time counts. If it shows the end twice, the second time counts.
    """
    if hours == NO_QUIET_HOURS or hours.start == hours.end:
        return None
    local_zone, until = time_zone_of(zone), now
    today = now.astimezone(local_zone).date()
    # If the local clock is set back far enough, one day's quiet hours overlap the next day's. The later end counts.
    for day in (today - _DAY, today, today + _DAY):
        start, end = _quiet_span(local_zone, hours, day)
        until = end if start <= until < end else until
    return until if until > now else None


def rounded_up_to_quarter_hour(quiet_end: datetime) -> datetime:
    return quiet_end + (_QUARTER_HOUR_ORIGIN - quiet_end) % WAKE_INTERVAL


def _quiet_span(zone: tzinfo, hours: QuietHours, day: date) -> tuple[datetime, datetime]:
    """Return start and end of the quiet hours that begin on this day."""
    end_day = day if hours.start < hours.end else day + _DAY
    return min(_utc_times(zone, day, hours.start)), max(_utc_times(zone, end_day, hours.end))


def _utc_times(zone: tzinfo, day: date, at: time) -> tuple[datetime, datetime]:
    """Return the UTC times at which the local clock shows this time.

    If the time occurs twice, these are its two UTC times. If the local clock skips it, one is before the gap and one
    after it. Otherwise they are equal.
    """
    local = datetime.combine(day, at, zone)
    return local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    try:
        return UTC if name == UTC_ZONE else ZoneInfo(name)  # UTC works even if the system has no zone rules
    except (ZoneInfoNotFoundError, ValueError, OSError):  # also for a directory's name or an invalid path
        return None
