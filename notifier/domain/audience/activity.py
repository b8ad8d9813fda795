"""Who counts as active and until when, in hours since 1970: what a look is worth, and which hours may have grown."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import UserId

LASTS = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 7, SetKind.ACTIVE_30D: 30}
"""Days for which one look at the tab keeps a member in each of the sets."""

OF_THE_ACTIVE = tuple(LASTS)

REACHES = (7, 14, LASTS[SetKind.ACTIVE_30D])
"""Days that P2's reach may have; whoever looked is remembered for the longest."""

FOREVER = (1 << 31) - 1
"""An hour that never comes, for what an import says without a time; every store can keep it."""

LATE = timedelta(minutes=5)
"""A look is told within seconds; the rest is for clocks that differ."""

MISSED = 3
"""Rounds of the roll-up, after which what it published is called a snapshot."""

_DAY = 24
"""Hours."""


class Published(StrEnum):
    """How the sets stand that workers read."""

    CURRENT = "ok"
    SNAPSHOT = "snapshot"
    """As they were published last; nothing is lost with it but who has come since."""
    HELD = "held"
    """As they were loaded, because somebody wants it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Somebody was around elsewhere: logged in, say, or opened another part of the platform."""

    id: EventId
    user: UserId
    at: datetime

    def counts(self, now: datetime) -> bool:
        """As if it were now, for hours that have passed are closed; after a day it says nothing of this one."""
        return self.at > now - LASTS[SetKind.ACTIVE_24H] * timedelta(days=1)


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def grown(now: datetime, last: int | None, kept: timedelta) -> range:
    """The hours of which somebody may have been told since the last roll-up, which was in the hour `last`; all that
    are kept where there was none. Never empty, and none is left out because a clock was set back."""
    oldest, since = hour_of(now - kept), hour_of(now - LATE)
    return range(oldest if last is None else max(oldest, min(last, since)), hour_of(now) + 1)


def stays_until(kind: SetKind, hour: int) -> int:
    """The last hour in which the set has a member who looked in this one.

    The longer stays end with a day: so a shard has 25, 8 and 31 bitmaps at most. Whoever looked is in a set for at
    least as long as it says, and for less than an hour more, or a day.
    """
    if kind is SetKind.ACTIVE_24H:
        return hour + _DAY
    return (hour // _DAY + LASTS[kind] + 1) * _DAY - 1


def turned(kind: SetKind, last: int | None, hour: int) -> bool:
    """Whether somebody may have left the set since the hour `last`, in which all of it was made."""
    return last is None or (last != hour if kind is SetKind.ACTIVE_24H else last // _DAY != hour // _DAY)


def asked_hour(kind: SetKind, hour: int, reach: int) -> int:
    """Who stays at least until then is in the set in this hour. P2's has as many days fewer as its reach is shorter."""
    return hour + (LASTS[kind] - reach) * _DAY if kind is SetKind.ACTIVE_30D else hour


def published(last: datetime | None, now: datetime, every: timedelta) -> Published:
    """By when the roll-up said last that it was done; None also where the cache forgot it."""
    if not every:
        return Published.HELD
    return Published.CURRENT if last is not None and now - last <= MISSED * every else Published.SNAPSHOT
