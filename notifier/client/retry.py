"""Patience: how long to wait before the next try, and when to give up."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from notifier.client.errors import Unanswered

FIRST = 0.1
"""Seconds: the first pause is at most this long, each later one twice as long as the one before."""
LONGEST = 10.0
"""The service asks for one second when it is restarted and ten when its disk is full."""
LONGEST_ASKED = 30.0
"""Whatever `Retry-After` says: a proxy that says an hour would be believed for an hour after it is mended."""


@dataclass(slots=True, kw_only=True)
class Patience:
    """Of one call. Pauses are random from nothing up ("full jitter"), so that many callers don't come back together."""

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    chance: Callable[[], float]
    """From 0 up to 1."""
    tries: int = 0

    def left(self) -> float:
        return self.deadline - self.clock()

    def pause(self, why: str, asked: float = 0.0, status: int = 0) -> None:
        """`asked` is the least it waits, `status` what was answered.

        Raises Unanswered when no time would be left for another try.
        """
        asked = min(asked, LONGEST_ASKED)
        spare = self.left() - asked
        if spare < FIRST:
            raise Unanswered(why, asked=asked, status=status)
        jitter = self.chance() * min(spare, LONGEST, FIRST * 2.0 ** min(self.tries, 16))
        self.tries += 1
        self.sleep(asked + jitter)


def asked_for(said: str) -> float:
    """Seconds, from a `Retry-After` in either of its spellings; 0 when it says nothing that can be read."""
    try:
        return max(0.0, float(said) if said.isdecimal() else _until(said))
    except (ValueError, TypeError):
        return 0.0


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
