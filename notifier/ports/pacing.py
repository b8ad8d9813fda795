"""What bounds alerts: each provider's pace, who is left alone, each person's caps, and how slow the tab is."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.ids import BurstKey, Member
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.push.device import Platform
from notifier.domain.push.frequency_cap import Ruling


class Paces(Protocol):
    """One pace for each provider, of all workers together: the rule is `domain/pace`.

    Of all who draw or tell at the same moment none loses another's. Not durable: what was forgotten begins anew, at
    the floor. Raises CacheUnavailable, and then nobody knows whether something was drawn.
    """

    def draw(self, platform: Platform, wanted: int, *, urgent: bool, ease: float, now: datetime) -> int:
        """How many alerts may go now, 0 to `wanted`. Drawn is spent, sent or not; who gets less comes again after some
        hundredths of a second."""
        ...

    def tell(self, platform: Platform, *, refused: int, slow: bool, now: datetime) -> None:
        """How many the provider refused for its quota, and whether it was slow to answer. Where neither is so, nobody
        is asked."""
        ...


class Caps(Protocol):
    """Each person's alerts of the last day: the rule is `domain/caps`."""

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        """What holds for each of them, up to some thousands of one shard; the new ones are counted in the same step.

        A few round trips, whoever they are. Said twice it spends once: of somebody for whom it was new it then says
        AGAIN. Of two who say different bursts of one person at the same moment neither misses the other's. Not durable:
        what is forgotten is as if it had not rung. Raises CacheUnavailable, and then some may be counted.
        """
        ...


class TabReport(Protocol):
    """The word of those who answer people to those who alert them. Raises CacheUnavailable."""

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        """How long pages take; the last word of each process counts, and is forgotten after `lasting`."""
        ...

    def worst(self) -> timedelta | None:
        """Of all processes; None when none of them said anything lately, or nothing that can be read."""
        ...


class LineReport(Protocol):
    """The word of those who alert to whoever watches: which providers and push services are left alone. Nobody decides
    by it. Raises CacheUnavailable."""

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        """Of several processes the last word about a line counts; it is forgotten after `lasting`."""
        ...

    def told(self) -> Mapping[str, LeftAlone]:
        """By line, without what was forgotten or can't be read."""
        ...
