"""The inbox, as the write path knows it: rows by range of members, no person named."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRows


class Inbox(Protocol):
    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        """Durable when it returns; the same rows again change nothing.

        Short transactions, so that a tier in a hurry never waits long behind bulk; `going` is called between them, and
        may raise. Raises StoreUnavailable or Full. Then, too, some rows may have been written.
        """
        ...

    def sweep(self, now: datetime, limit: int) -> int:
        """Deletes up to about `limit` expired rows and seals; returns how many, 0 when none is left, and always where
        they end by themselves.
        """
        ...
