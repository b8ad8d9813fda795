"""Settings of rate limits, inbox, reach and dead letters."""

from dataclasses import dataclass
from datetime import timedelta

from notifier.config.field import setting
from notifier.domain.bursts.moderation import AUTHOR_LIMIT
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.token_bucket import BucketLimit

MOST = 1_000_000_000
"""Upper bound of counts. A larger number is a typing error."""


def _count(default: int, means: str) -> int:
    field: int = setting(
        default, must="a whole number from 0 to 1000000000", means=means, holds=lambda most: 0 <= most <= MOST
    )
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    reads: int = _count(1_500, "of one person in 15 minutes, a stream that is opened among them; 0: no limit")
    writes: int = _count(300, "of one person in 3 hours: marks, what was seen, preferences; 0: no limit")
    requests: int = _count(0, "with one service key in a minute, whatever they are; 0: no limit")


# Inbox: the deadline of a page and the memory of its caches.

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


# Reach: how many mentions of celebrities by one author may send push alerts.

MOST_MENTIONS = 1_000_000
LONGEST = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachSettings:
    capacity: int = setting(
        AUTHOR_LIMIT.capacity,
        must="a whole number from 1 to 1000000",
        means="mentions of celebrities by one account in a row that may wake phones; what comes beyond has rows and no"
        " alert",
        holds=lambda mentions: 1 <= mentions <= MOST_MENTIONS,
    )
    refill: timedelta = setting(
        AUTHOR_LIMIT.refill,
        must="a number of seconds from 0.001 to 86400",
        means="until such an account may have one more",
        holds=lambda wait: timedelta(milliseconds=1) <= wait <= LONGEST,
    )

    @property
    def cap(self) -> BucketLimit:
        return BucketLimit(capacity=self.capacity, refill=self.refill)


# Dead letters: how many records of a lane may become dead letters before the lane stops.

MOST_DEATHS = 1_000
"""Upper bound of the limits. Each dead letter rewrites the list of those in the window: 1,000 entries are ~40 kB."""
LONGEST_WINDOW = 1_000_000


def _deaths(default: int, means: str) -> int:
    deaths: int = setting(
        default,
        must=f"a whole number from 0 to {MOST_DEATHS}",
        means=means,
        holds=lambda count: 0 <= count <= MOST_DEATHS,
    )
    return deaths


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    in_a_row: int = _deaths(
        DeadLetterLimit().in_a_row,
        "records or slices of one lane that may become dead letters one after another; the lane stops before the next"
        " one ([what to do](operations.md#a-lane-is-stopped)); 0: no limit",
    )
    in_window: int = _deaths(
        DeadLetterLimit().in_window,
        "the same among the last `NOTIFIER_DEAD_LETTERS_WINDOW` of the lane, in any order; 100 of 10,000 are 1 %; 0: no"
        " limit",
    )
    window: int = setting(
        DeadLetterLimit().window,
        must=f"a whole number from 1 to {LONGEST_WINDOW}",
        means="how many records or slices of a lane are looked back at",
        holds=lambda records: 1 <= records <= LONGEST_WINDOW,
    )

    @property
    def limit(self) -> DeadLetterLimit:
        return DeadLetterLimit(in_a_row=self.in_a_row, in_window=self.in_window, window=self.window)
