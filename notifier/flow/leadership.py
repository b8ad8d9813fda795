"""Leadership of a singleton job: a lease that the leader renews."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.ports.leases_queues_throttles_clock import Leases


@dataclass(slots=True, kw_only=True)
class Leadership:
    """A lease that is renewed after a third of its term."""

    leases: Leases
    name: str
    owner: str
    term: timedelta
    lease_until: datetime | None = None
    """When the lease expires; None while this process is not the leader."""

    def is_leader(self, now: datetime) -> bool:
        """Return whether this process leads; False while another process holds the lease.

        Two processes can act as leader at once: a leader that stalls until its lease expires still finishes its round.
        So late writes of a leader must do no harm.
        """
        if self.lease_until is None or now >= self.lease_until - self.term * 2 / 3:
            acquired = self.leases.acquire(self.name, self.owner, now, self.term)
            self.lease_until = now + self.term if acquired else None
        return self.lease_until is not None
