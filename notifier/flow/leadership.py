"""Leadership of a singleton job: a lease, renewed after a third of its term."""

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

    def is_leader(self, now: datetime) -> bool:
        """Return whether this process leads; False while another process holds the lease.

        Two processes can both believe that they lead only if one of them stalls within a round for longer than the
        term. So every effect of a leader is either written once or idempotent.
        """
        if self.until is None or now >= self.until - self.term * 2 / 3:
            acquired = self.leases.acquire(self.name, self.owner, now, self.term)
            self.until = now + self.term if acquired else None
        return self.until is not None
