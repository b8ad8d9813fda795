"""The settings of the reach: how often one mentioner may wake the phones of celebrities' followers."""

from dataclasses import dataclass
from datetime import timedelta

from notifier.config.field import setting
from notifier.domain.bursts.moderation import RateCap

MOST = 1_000_000
LONGEST = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    capacity: int = setting(
        RateCap().capacity,
        must="a whole number from 1 to 1000000",
        means="mentions of celebrities by one account in a row that may wake phones; what comes beyond has rows and no"
        " alert",
        holds=lambda mentions: 1 <= mentions <= MOST,
    )
    refill: timedelta = setting(
        RateCap().refill,
        must="a number of seconds from 0.001 to 86400",
        means="until such an account may have one more",
        holds=lambda wait: timedelta(milliseconds=1) <= wait <= LONGEST,
    )

    @property
    def cap(self) -> RateCap:
        return RateCap(capacity=self.capacity, refill=self.refill)
