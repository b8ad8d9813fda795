"""A provider's pace: how many alerts may go to it right now, from all workers together.

A bucket that fills as fast as the provider takes alerts, and holds no more than a second brings. It begins slowly,
gives way to whoever refuses or falters, and comes back by itself. It is a value: who draws gets the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from notifier.domain.ids import Platform
from notifier.domain.token_bucket import TokenBucket

FLOOR = 0.05
"""Of the limit, with which it begins: of Google's 10,000 a second enough for a thousand VIPs within two seconds."""
RESERVED = 0.25
"""Of what can be saved up: nobody but the urgent gets it."""
URGENT_EASE = 0.5
"""The urgent are few: however slow tabs are, they keep half of the pace."""
REFUSED, SLOW = 0.5, 0.8
"""What a refusal for quota leaves of the share, and what slow answers do."""
LEAST_SHARE = 0.01
RECOVERED = 0.05
"""Of the limit, each second: back from a refusal within ten."""
CUT_EVERY = timedelta(seconds=1)
"""All that were on their way are refused at once, and say one thing."""

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    per_minute: int
    """What the provider takes, from all of us, in any minute."""
    ramp: timedelta = timedelta(seconds=60)
    """From the floor to all of it: Google asks for no less."""
    idle: timedelta = timedelta(minutes=5)
    """After so long without a draw it begins anew."""

    @property
    def per_second(self) -> float:
        """Any minute has what one second saved up, what sixty bring, and one alert that is owed."""
        return (self.per_minute - 1) / 61

    def shared(self, among: int) -> "Terms":
        return replace(self, per_minute=self.per_minute // among)


TERMS: Mapping[Platform, Terms] = {
    # A project's quota at Google, unless somebody asked for more.
    Platform.FCM: Terms(per_minute=600_000),
    # Apple publishes none: twice what is asked of Google, and far more than one machine sends.
    Platform.APNS: Terms(per_minute=1_200_000),
    # Many services, each with a limit that it doesn't tell: what one core encrypts.
    Platform.WEB: Terms(per_minute=300_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    bucket: TokenBucket
    """Holds what one second earns. Below zero where the last draw owes some."""
    since: datetime
    """When it began to rise."""
    share: float = 1.0
    """Of the limit: what refusals and slowness leave."""
    cut_at: datetime | None = None


def drawn(
    pace: Pace | None, terms: Terms, now: datetime, wanted: int, *, urgent: bool, ease: float = 1.0
) -> tuple[Pace, int]:
    """The pace behind the draw, and how many may go.

    `ease` is what the tab leaves of it, from 0 to 1: with a half each alert costs two. Where there is anything for
    somebody they get one at least, and owe the rest; so that a small share is slow, and never nothing.
    """
    pace = _at(pace, terms, now)
    ease = max(ease, URGENT_EASE) if urgent else ease
    free = pace.bucket.tokens - (0.0 if urgent else RESERVED * rate(pace, terms))
    if min(wanted, free, ease) <= 0:
        return pace, 0
    granted = min(wanted, max(1, int(free * ease)))
    return replace(pace, bucket=pace.bucket.spent(granted / ease)), granted


def told(pace: Pace | None, terms: Terms, now: datetime, *, refused: int, slow: bool) -> Pace:
    """Behind what became of some: how many the provider refused for its quota, and whether it was slow to answer."""
    pace = _at(pace, terms, now)
    left = REFUSED if refused else SLOW if slow else 1.0
    if left == 1.0 or (pace.cut_at is not None and pace.bucket.at < pace.cut_at + CUT_EVERY):
        return pace
    slower = replace(pace, share=max(LEAST_SHARE, pace.share * left), cut_at=pace.bucket.at)
    return replace(slower, bucket=slower.bucket.lowered(rate(slower, terms)))


def rate(pace: Pace, terms: Terms) -> float:
    """A second; as much can be saved up."""
    risen = FLOOR + (1 - FLOOR) * ((pace.bucket.at - pace.since) / terms.ramp)
    return terms.per_second * pace.share * max(FLOOR, min(1.0, risen))


def _at(pace: Pace | None, terms: Terms, now: datetime) -> Pace:
    """As of now. A clock that is a little behind changes nothing; one that is far from the others, either way, has it
    begin anew, with no more than is there: clocks that disagree slow it, and never let more go."""
    if pace is None:
        return _begun(terms, now, inf)
    bucket = pace.bucket
    if not bucket.at - terms.idle <= now <= bucket.at + terms.idle:
        return _begun(terms, now, bucket.tokens)
    passed = bucket.elapsed(now) / _SECOND
    # The rate of the later moment counts for all of the time that has passed.
    share = min(1.0, pace.share + RECOVERED * passed)
    later = replace(pace, bucket=replace(bucket, at=max(bucket.at, now)), share=share)
    per_second = rate(later, terms)
    return replace(later, bucket=bucket.topped_up(per_second * passed, per_second, now))


def _begun(terms: Terms, now: datetime, tokens: float) -> Pace:
    empty = Pace(bucket=TokenBucket(tokens=0.0, at=now), since=now)
    return replace(empty, bucket=TokenBucket(tokens=max(0.0, min(tokens, rate(empty, terms))), at=now))


# Ease: what the tab leaves of the pace of alerts, because each of them has somebody open it.

TAB = timedelta(milliseconds=50)
"""A page at the 99th percentile: a few times what one takes at rest. Above it alerts begin to give way."""
STUCK = 4 * TAB
LEAST = 0.05
"""Alerts never stop for it: those who look anyway would keep all others silent."""


def ease(tab: timedelta | None, pressure: float) -> float:
    """From 1, where all is well, down to the least: by the slowest process's pages, None where nobody says, or by the
    monitor's pressure from 0 to 1, whichever leaves less."""
    waiting = 0.0 if tab is None else (tab - TAB) / (STUCK - TAB)
    return LEAST + (1 - LEAST) * (1 - max(0.0, min(1.0, max(waiting, pressure))))
