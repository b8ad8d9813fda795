"""Leadership: one dispatcher, one reconciler and one monitor at a time, without anybody to appoint them."""

from datetime import datetime, timedelta
from typing import Protocol


class Leases(Protocol):
    """Durable. Raises StoreUnavailable or Full."""

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        """True while the lease is the owner's, taken or renewed for another term."""
        ...
