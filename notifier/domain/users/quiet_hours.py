"""Quiet hours: when a person's phone stays silent, by the clock on the person's wall."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC_ZONE = "UTC"
_DAY = timedelta(days=1)
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """From one local time to another, over midnight where that comes first; none at all where both are the same."""

    start: time
    end: time


NO_HOURS = Hours(start=time(), end=time())

GRID = timedelta(minutes=15)
"""Whoever wakes is looked for at a quarter of an hour: of a shard's people one wakes in nearly every minute, and each
time a whole slice would be queued and looked through for one of them. Most quiet hours end at a quarter, and zones are
apart by quarters: for these nobody waits. Any other's alert has waited through a night, is no news, and comes up to a
quarter of an hour later still. But nobody is passed over for it: see `Overall.looked_for_at`."""


def known(zone: str) -> bool:
    """Whether it is one of the IANA's names; their rules come with the system."""
    return _zone(zone) is not None


def wall_of(zone: str) -> tzinfo:
    """UTC where the zone is known no more."""
    return _zone(zone) or UTC


def quiet(zone: str, hours: Hours, now: datetime) -> bool:
    """Where the clock is moved the hours stay one stretch: they begin at the first moment that its hand may mean, and
    end at the last, so that they are never cut in two, and never too short. By UTC where the zone is known no more."""
    return quiet_until(zone, hours, now) is not None


def quiet_until(zone: str, hours: Hours, now: datetime) -> datetime | None:
    """The first moment from now on that isn't quiet; None where now is one."""
    if hours == NO_HOURS or hours.start == hours.end:
        return None
    here, until = wall_of(zone), now
    today = now.astimezone(here).date()
    # Tomorrow's may begin before today's end: there are hours that leave out less of a day than a clock is moved.
    for day in (today - _DAY, today, today + _DAY):
        begins, ends = _stretch(here, hours, day)
        until = ends if begins <= until < ends else until
    return until if until > now else None


def looked_for(wakes: datetime) -> datetime:
    """When a person who wakes then is looked for: at that moment or after it, and never before."""
    return wakes + (_MIDNIGHT - wakes) % GRID


def _stretch(zone: tzinfo, hours: Hours, day: date) -> tuple[datetime, datetime]:
    """Of those that begin on this day."""
    ends = day if hours.start < hours.end else day + _DAY
    return min(_moments(zone, day, hours.start)), max(_moments(zone, ends, hours.end))


def _moments(zone: tzinfo, day: date, at: time) -> tuple[datetime, datetime]:
    """Two where the hand passes twice, or where it never comes by: then those around the leap."""
    local = datetime.combine(day, at, zone)
    return local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    try:
        return UTC if name == UTC_ZONE else ZoneInfo(name)  # which is there also where the system has no rules at all
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a name of a folder, or one that is no path
        return None
