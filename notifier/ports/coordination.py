"""Epochs: numbers that only rise, one for each time that somebody begins to be the one who writes something."""

from datetime import datetime, timedelta
from typing import Protocol


class Epochs(Protocol):
    def begin(self, name: str) -> int:
        """A higher one than anybody was given for this name. Durable.

        Raises StoreUnavailable; then one may be left out.
        """
        ...


# Leadership: one dispatcher, one reconciler and one monitor at a time, without anybody to appoint them.


class Leases(Protocol):
    """Durable. Raises StoreUnavailable or Full."""

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        """True while the lease is the owner's, taken or renewed for another term."""
        ...
