"""Activity rules: how long a user counts as active, in hours since 1970."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import UserId

LASTS = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 7, SetKind.ACTIVE_30D: 30}
"""Days for which one visit to the inbox keeps a member in each active set."""

OF_THE_ACTIVE = tuple(LASTS)

REACHES = (7, 14, LASTS[SetKind.ACTIVE_30D])
"""Allowed values for the reach of P2, in days. Activity is kept for the longest of them."""

FOREVER = (1 << 31) - 1
"""Expiry hour of imported activity without a time. It is never reached, and every store can keep it."""

LATE = timedelta(minutes=5)
"""Longest delay with which activity is recorded. It takes seconds; the remainder allows for clock differences."""

MISSED = 3
"""Missed roll-up rounds after which the published sets count as a snapshot."""

_DAY = 24
"""Hours."""


class Published(StrEnum):
    """Freshness of the active sets that workers read."""

    CURRENT = "ok"
    SNAPSHOT = "snapshot"
    """The roll-up is late. Only users who became active since the last round are missing."""
    HELD = "held"
    """The roll-up is switched off, and the sets stay as loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A user was active elsewhere on the platform, for example logged in."""

    id: EventId
    user: UserId
    at: datetime

    def counts(self, now: datetime) -> bool:
        """Return whether to count the sighting, in the current hour because past hours are closed.

        A sighting older than a day no longer counts.
        """
        return self.at > now - LASTS[SetKind.ACTIVE_24H] * timedelta(days=1)


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def grown(now: datetime, last: int | None, kept: timedelta) -> range:
    """Return the hours that may have new activity since the last roll-up, which ran in the hour `last`.

    Without a last roll-up these are all hours kept. The range is never empty, and a clock set back skips no hour.
    """
    oldest, since = hour_of(now - kept), hour_of(now - LATE)
    return range(oldest if last is None else max(oldest, min(last, since)), hour_of(now) + 1)


def stays_until(kind: SetKind, hour: int) -> int:
    """Return the last hour in which a member who was active in `hour` belongs to the set.

    Entries of the longer sets expire at the end of a day, so a shard has at most 25, 8 and 31 bitmaps.
    A member stays at least as long as the set's name says, and less than an hour (or a day) longer.
    """
    if kind is SetKind.ACTIVE_24H:
        return hour + _DAY
    return (hour // _DAY + LASTS[kind] + 1) * _DAY - 1


def turned(kind: SetKind, last: int | None, hour: int) -> bool:
    """Return whether entries may have expired since the hour `last`, in which the whole set was built."""
    return last is None or (last != hour if kind is SetKind.ACTIVE_24H else last // _DAY != hour // _DAY)


def asked_hour(kind: SetKind, hour: int, reach: int) -> int:
    """Return the earliest expiry hour that makes a member part of the set in `hour`.

    For the set of P2 it is later if the reach is shorter than 30 days.
    """
    return hour + (LASTS[kind] - reach) * _DAY if kind is SetKind.ACTIVE_30D else hour


def published(last: datetime | None, now: datetime, every: timedelta) -> Published:
    """Return the freshness of the sets. `last` is the end of the last roll-up; None if the cache lost it."""
    if not every:
        return Published.HELD
    return Published.CURRENT if last is not None and now - last <= MISSED * every else Published.SNAPSHOT
