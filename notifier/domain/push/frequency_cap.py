"""Caps: how often one person's phone may ring, and that one thing rings it once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2s
from typing import Self

from notifier.domain.ids import BurstKey

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ASKEW = HOUR
"""Clocks that are no further apart than this agree on who is over a cap: what is to come counts, what has just passed
is kept. A moment further ahead is of no clock, and forgotten."""
KEPT = DAY + ASKEW
LAST = 100
"""Alerts that are remembered of somebody without limits; enough to know all that may come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Alerts, in any span of that length; 0 is no limit."""

    hourly: int = 5
    daily: int = 20

    @property
    def remembered(self) -> int:
        """A day's, twice: of the hour by which clocks disagree there may be as many once more."""
        return max(LAST, 2 * self.hourly, 2 * self.daily)


class Ruling(StrEnum):
    NEW = "new"
    """The phone may ring, and one is spent."""
    AGAIN = "again"
    """This burst is counted already: it is tried again, or another device of the person's. Nothing is spent."""
    SAME_TWEET = "same_tweet"
    """It rang for this very tweet: of several celebrities in one tweet a person is alerted once."""
    HOURLY = "hourly"
    DAILY = "daily"

    @property
    def rings(self) -> bool:
        return self in (Ruling.NEW, Ruling.AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a phone rang for, as eight bytes each: a person's day must be small."""

    burst: bytes
    tweet: bytes

    @classmethod
    def of(cls, burst: BurstKey, tweet: str) -> Self:
        return cls(burst=_digest(str(burst)), tweet=_digest(tweet))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    at: datetime
    cause: Cause


History = Sequence[Rung]
"""One person's, the oldest first."""


def judged(history: History, cause: Cause, now: datetime, caps: Caps) -> Ruling:
    lately = [rung for rung in history if now - DAY < rung.at <= now + ASKEW]
    if any(rung.cause.burst == cause.burst for rung in lately):
        return Ruling.AGAIN
    if any(rung.cause.tweet == cause.tweet for rung in lately):
        return Ruling.SAME_TWEET
    # Of both, the one that holds for longer.
    if caps.daily and len(lately) >= caps.daily:
        return Ruling.DAILY
    if caps.hourly and sum(rung.at > now - HOUR for rung in lately) >= caps.hourly:
        return Ruling.HOURLY
    return Ruling.NEW


def spent(history: History, cause: Cause, now: datetime, caps: Caps) -> History:
    """With one more, and without those that no clock counts any more."""
    kept = [rung for rung in history if now - KEPT < rung.at <= now + ASKEW]
    return sorted([*kept, Rung(at=now, cause=cause)], key=lambda rung: rung.at)[-caps.remembered :]


def _digest(words: str) -> bytes:
    return blake2s(words.encode(), digest_size=8).digest()
