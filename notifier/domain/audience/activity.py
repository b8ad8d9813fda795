"""Activity rules: how long a user counts as active. Hours are numbered from 1970."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import UserId

ACTIVE_DAYS = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 7, SetKind.ACTIVE_30D: 30}
"""Days for which activity keeps a member in each active set."""

ACTIVE_SET_KINDS = tuple(ACTIVE_DAYS)

P2_DAYS_CHOICES = (7, 14, ACTIVE_DAYS[SetKind.ACTIVE_30D])
"""Choices for the setting `p2_days`."""

FOREVER = (1 << 31) - 1
"""Expiry hour of entries that never expire. Every store can keep it."""

MAX_RECORDING_DELAY = timedelta(minutes=5)
"""Longest delay with which activity is recorded. Recording takes seconds; the rest allows for clock differences."""

MAX_MISSED_ROUNDS = 3
"""The active sets count as outdated if the last roll-up is older than this many roll-up intervals."""

_HOURS_PER_DAY = 24


class ActiveSetFreshness(StrEnum):
    """Freshness of the active sets that workers read."""

    CURRENT = "ok"
    OUTDATED = "snapshot"
    """The last roll-up is too old, or its time is not known. Users who became active since then are missing."""
    OFF = "off"
    """The roll-up is switched off, and the sets stay as they were loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A user was active outside of this service, for example logged in to the app."""

    id: EventId
    user: UserId
    at: datetime

    def is_recent(self, now: datetime) -> bool:
        """Return whether the sighting still counts.

        The caller records it in the current hour, because the roll-up may not read the hour of `at` again.
        """
        return self.at > now - ACTIVE_DAYS[SetKind.ACTIVE_24H] * timedelta(days=1)


def hour_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def hours_to_read(now: datetime, last_hour: int | None, kept_for: timedelta) -> range:
    """Return the hours that may have new activity since the last roll-up, which ran in `last_hour`.

    Without a last roll-up these are all hours that are kept. The range is never empty. If the clock was set back, so
    that `last_hour` is in the future, the range still starts early enough.
    """
    oldest_kept, oldest_open = hour_of(now - kept_for), hour_of(now - MAX_RECORDING_DELAY)
    return range(oldest_kept if last_hour is None else max(oldest_kept, min(last_hour, oldest_open)), hour_of(now) + 1)


def expiry_hour(kind: SetKind, hour: int) -> int:
    """Return the last hour in which a member who was active in `hour` belongs to the set.

    Entries of the 24-hour set expire at the end of an hour, entries of the other two at the end of a day. A member
    stays at least as long as the set's name says, and up to an hour (or a day) longer. In each shard a set has one
    bitmap per expiry hour: at most 25, 8 and 31 bitmaps that expire.
    """
    if kind is SetKind.ACTIVE_24H:
        return hour + _HOURS_PER_DAY
    return (hour // _HOURS_PER_DAY + ACTIVE_DAYS[kind] + 1) * _HOURS_PER_DAY - 1


def may_have_expired(kind: SetKind, built_hour: int | None, hour: int) -> bool:
    """Return whether entries of the set may have expired between the hour in which it was built and this hour."""
    return built_hour is None or (
        built_hour != hour if kind is SetKind.ACTIVE_24H else built_hour // _HOURS_PER_DAY != hour // _HOURS_PER_DAY
    )


def earliest_expiry_hour(kind: SetKind, hour: int, p2_days: int) -> int:
    """Return the earliest expiry hour that makes a member part of the set in `hour`.

    P2 reads the 30-day set. With a lower `p2_days` only entries with a later expiry hour count.
    """
    return hour + (ACTIVE_DAYS[kind] - p2_days) * _HOURS_PER_DAY if kind is SetKind.ACTIVE_30D else hour


def active_set_freshness(last_roll_up: datetime | None, now: datetime, interval: timedelta) -> ActiveSetFreshness:
    if not interval:
        return ActiveSetFreshness.OFF
    return (
        ActiveSetFreshness.CURRENT
        if last_roll_up is not None and now - last_roll_up <= MAX_MISSED_ROUNDS * interval
        else ActiveSetFreshness.OUTDATED
    )
