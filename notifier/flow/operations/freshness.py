"""Freshness: how old the numbers are that tiers are made of, and how much was said that isn't in them yet."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier import topics
from notifier.domain.audience.activity import Published, published
from notifier.domain.errors import CacheUnavailable
from notifier.ports.audience import ActiveHours
from notifier.ports.clock import Clock
from notifier.ports.event_log import EventLog

COUNTED = 1_000
"""Of a stream's records: more than so many are that many."""
OF_AUDIENCES = (topics.FOLLOWS, topics.USERS, topics.ACTIVITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    activity: Published
    rolled_up_at: datetime | None
    """When those who were around came into the sets last; None where nobody knows."""
    waiting: Mapping[str, int]
    """By stream what was accepted and isn't in rows and bitmaps yet."""


def freshness(log: EventLog, hours: ActiveHours, clock: Clock, every: timedelta) -> Fresh:
    """Raises LogUnavailable."""
    standing, at = rolled_up(hours, clock, every)
    groups = topics.GROUPS
    waiting = {stream: sum(1 for _ in log.waiting(stream, groups[stream], COUNTED)) for stream in OF_AUDIENCES}
    return Fresh(activity=standing, rolled_up_at=at, waiting=waiting)


def rolled_up(hours: ActiveHours, clock: Clock, every: timedelta) -> tuple[Published, datetime | None]:
    """`every` is how often it should be; nothing where tiers are held as they were loaded."""
    last = None
    with suppress(CacheUnavailable):  # then nobody knows of a roll-up, and none is done
        last = hours.last_rolled_up() if every else None
    return published(last, clock.now(), every), last
