"""Leadership: a lease on being the only one at a job, renewed when a third of its term has passed."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.ports.coordination import Leases


@dataclass(slots=True, kw_only=True)
class Leadership:
    leases: Leases
    name: str
    owner: str
    term: timedelta
    until: datetime | None = None

    def held(self, now: datetime) -> bool:
        """False while another has the job. Two may believe to lead only if one was stopped for longer than the term
        within a round; every effect of a leader is written once or idempotent for that reason.
        """
        if self.until is None or now >= self.until - self.term * 2 / 3:
            held = self.leases.hold(self.name, self.owner, now, self.term)
            self.until = now + self.term if held else None
        return self.until is not None
