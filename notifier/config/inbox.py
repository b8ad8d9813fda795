"""The settings of the inbox: how long a page may take, and how much memory its caches may use."""

from dataclasses import dataclass
from datetime import timedelta

from notifier.config.field import setting

MEGABYTE = 1_000_000
LEAST_CACHE, MOST_CACHE = 1, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxLimits:
    deadline: timedelta = setting(
        timedelta(seconds=0.2),
        must="a number of seconds from 0.05 to 10",
        means="how long a page may take; after it the answer is what this process showed the user last, marked partial,"
        " or 503",
        holds=lambda within: timedelta(seconds=0.05) <= within <= timedelta(seconds=10),
    )
    cache: int = setting(
        128,
        must=f"a whole number from {LEAST_CACHE} to {MOST_CACHE}",
        means="megabytes that one API process may use to cache users' facts, first pages and newest bursts",
        holds=lambda size: LEAST_CACHE <= size <= MOST_CACHE,
    )
