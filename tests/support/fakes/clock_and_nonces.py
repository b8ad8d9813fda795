"""Clock and nonces that a test controls."""

from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


class ManualClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        self._now += by


class CountedNonces:
    """Nonces that are the same in every run."""

    def __init__(self, prefix: str = "nonce") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def new(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"
