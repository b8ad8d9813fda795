"""The ledger and the claims: the record of all work, from which every queue can be refilled."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from notifier.domain.ledger import Account, Claim, Entry
from notifier.domain.plan import Plan
from notifier.domain.slice import Slice
from notifier.domain.subject import BurstKey


class Ledger(Protocol):
    """Durable. Raises StoreUnavailable, and Full where it writes."""

    def plan(self, plans: Sequence[Plan]) -> None:
        """Writes each plan once, and lists its burst as open; a second plan of a burst changes nothing."""
        ...

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        """Bursts with work left, oldest first; all, or those that opened then or later."""
        ...

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, Account]:
        """The account of each burst that has a plan."""
        ...

    def record(self, entries: Sequence[Entry]) -> Sequence[bool]:
        """Writes each cell (slice, fact, n) unless it is there already, and says which were written now. Of what
        happens time and again (dispatched, attempt, waits) a cell may count as being there once a later one is."""
        ...

    def close(self, bursts: Collection[BurstKey]) -> None:
        """Takes them off the list of open bursts; their accounts stay."""
        ...


class Claims(Protocol):
    """Compare-and-set on one row a slice. Raises StoreUnavailable or Full."""

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        """The slice is the caller's until then, from where the last holder had reached; None while a claim holds."""
        ...

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        """Keeps what the claim says it has reached, too; None when another holds the slice by now: the caller stops."""
        ...

    def release(self, claim: Claim, now: datetime) -> None:
        """Gives the slice back as far as it is; nothing when it is another's by now."""
        ...
