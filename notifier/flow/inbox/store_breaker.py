"""A breaker for the store: while it fails, whoever was shown something before gets that again without waiting."""

from dataclasses import dataclass
from datetime import datetime, timedelta

FAILURES = 5
"""In a row. One slow answer is no reason to show others a partial page."""
REST = timedelta(seconds=1)
"""Between two tries while it is open."""


@dataclass(slots=True)
class StoreBreaker:
    """For one event loop. Who has nothing to show instead does not ask it."""

    failures: int = 0
    next_try: datetime | None = None

    def allows(self, now: datetime) -> bool:
        """Whether this caller may wait for the store; while the breaker is open, one caller per REST may."""
        if self.failures < FAILURES:
            return True
        if self.next_try is not None and self.next_try - REST <= now < self.next_try:
            return False
        self.next_try = now + REST
        return True

    def failed(self, now: datetime) -> None:
        self.failures += 1
        if self.failures == FAILURES:
            self.next_try = now + REST

    def worked(self) -> None:
        self.failures = 0
