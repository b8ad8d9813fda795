"""Settings of rate limits, inbox, reach and dead letters."""

from dataclasses import dataclass
from datetime import timedelta

from notifier.config.setting_field import setting
from notifier.domain.bursts.moderation import AUTHOR_CAP
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.token_bucket import BucketLimit

MAX_COUNT = 1_000_000_000
"""A larger count is rejected as a typing error."""


def _count_setting(default: int, meaning: str) -> int:
    field: int = setting(
        default,
        requirement="a whole number from 0 to 1000000000",
        meaning=meaning,
        is_valid=lambda count: 0 <= count <= MAX_COUNT,
    )
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    reads: int = _count_setting(1_500, "Reads per user in 15 minutes, including opened streams. 0: no limit.")
    writes: int = _count_setting(300, "Writes per user in 3 hours. 0: no limit.")
    requests: int = _count_setting(0, "Requests of any kind per service key and minute. 0: no limit.")


MIN_CACHE_MB, MAX_CACHE_MB = 1, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxLimits:
    deadline: timedelta = setting(
        timedelta(seconds=0.2),
        requirement="a number of seconds from 0.05 to 10",
        meaning="Time limit of a page. It is five times as long if the process has no page of the user to fall back "
        "to. When it has passed, the API answers with the user's last page or a page of inbox rows, marked partial, "
        "or with 503.",
        is_valid=lambda deadline: timedelta(seconds=0.05) <= deadline <= timedelta(seconds=10),
    )
    cache: int = setting(
        128,
        requirement=f"a whole number from {MIN_CACHE_MB} to {MAX_CACHE_MB}",
        meaning="Megabytes that one API process may use to cache viewer facts, first pages and newest bursts.",
        is_valid=lambda size: MIN_CACHE_MB <= size <= MAX_CACHE_MB,
    )


MAX_MENTIONS = 1_000_000
MAX_REFILL = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachSettings:
    capacity: int = setting(
        AUTHOR_CAP.capacity,
        requirement="a whole number from 1 to 1000000",
        meaning="How many mentions of celebrities by one account may cause alerts in a row. Further mentions are "
        "delivered as rows without alerts.",
        is_valid=lambda mentions: 1 <= mentions <= MAX_MENTIONS,
    )
    refill: timedelta = setting(
        AUTHOR_CAP.refill,
        requirement="a number of seconds from 0.001 to 86400",
        meaning="Seconds until an account that has used up its mentions may cause alerts with one more.",
        is_valid=lambda wait: timedelta(milliseconds=1) <= wait <= MAX_REFILL,
    )

    @property
    def author_limit(self) -> BucketLimit:
        return BucketLimit(capacity=self.capacity, refill=self.refill)


MAX_DEAD_LETTERS = 1_000
"""Maximum of `in_a_row` and `in_window`. Each dead letter rewrites the tally, which lists recent dead letters: 1,000
take about 40 kB."""
MAX_WINDOW_RECORDS = 1_000_000


def _dead_letter_count_setting(default: int, meaning: str) -> int:
    field: int = setting(
        default,
        requirement=f"a whole number from 0 to {MAX_DEAD_LETTERS}",
        meaning=meaning,
        is_valid=lambda count: 0 <= count <= MAX_DEAD_LETTERS,
    )
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    in_a_row: int = _dead_letter_count_setting(
        DeadLetterLimit().in_a_row,
        "Records or slices of a lane that may become dead letters in a row. The lane stops before the "
        "next one ([what to do](operations.md#a-lane-is-stopped)). 0: no limit.",
    )
    in_window: int = _dead_letter_count_setting(
        DeadLetterLimit().in_window,
        "Dead letters allowed among the last `NOTIFIER_DEAD_LETTERS_WINDOW` records or slices of a "
        "lane, in any order; 100 of 10,000 are 1 %. 0: no limit.",
    )
    window: int = setting(
        DeadLetterLimit().window,
        requirement=f"a whole number from 1 to {MAX_WINDOW_RECORDS}",
        meaning="Number of a lane's latest records or slices that `NOTIFIER_DEAD_LETTERS_IN_WINDOW` covers.",
        is_valid=lambda records: 1 <= records <= MAX_WINDOW_RECORDS,
    )

    @property
    def limit(self) -> DeadLetterLimit:
        return DeadLetterLimit(in_a_row=self.in_a_row, in_window=self.in_window, window=self.window)
