"""A breaker for the store: while it fails, users who were shown a page before get it again without waiting."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.push.circuit_breaker import CLOSED, Breaker, Closed, Failed, Succeeded, Terms, asked, told

TERMS = Terms(failures=5, rest=timedelta(seconds=1), successes=1)
"""One slow answer is no reason to show others a partial page."""


@dataclass(slots=True)
class StoreBreaker:
    """For one event loop. Users who have nothing to show instead do not ask it."""

    state: Breaker = CLOSED

    @property
    def closed(self) -> bool:
        return isinstance(self.state, Closed)

    def allows(self, now: datetime) -> bool:
        """Return whether this caller may wait for the store; while the breaker is open, one caller per rest may."""
        self.state, allowed = asked(self.state, TERMS, now)
        return allowed

    def failed(self, now: datetime) -> None:
        self.state = told(self.state, TERMS, Failed(reason="The store does not answer."), now)

    def worked(self, now: datetime) -> None:
        if self.state is not CLOSED:
            self.state = told(self.state, TERMS, Succeeded(), now)
