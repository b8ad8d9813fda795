"""The ledger, the sleepers and the claims: the record of all work, from which every queue can be refilled."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.audience.snapshot import Seal
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.delivery.ledger import BurstProgress, Claim, LedgerEntry
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import Slice
from notifier.domain.ids import BurstKey


class Ledger(Protocol):
    """Durable. Raises StoreUnavailable, and Full where it writes."""

    def plan(self, plans: Sequence[Plan]) -> None:
        """Writes each plan once, and lists its burst as open; a second plan of a burst changes nothing."""
        ...

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        """Bursts with work left that don't sleep, oldest first; all, or those that opened then or later."""
        ...

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        """The account of each burst that has a plan."""
        ...

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        """Writes each cell (slice, fact, n) unless it is there already, and says which were written now. Of what
        happens time and again (dispatched, attempt, waits) a cell may count as being there once a later one is."""
        ...

    def close(self, bursts: Collection[BurstKey]) -> None:
        """Takes them off the list of open bursts; their accounts stay."""
        ...


class Sleepers(Protocol):
    """The list of bursts of which nothing is to be done before a moment, beside that of the open ones. An open burst is
    in one of them; in both for a while, which is harmless, and never in neither, whoever dies or is late.
    Durable. Raises StoreUnavailable, and Full where it writes."""

    def lay(self, sleepers: Sequence[Sleeper], now: datetime) -> None:
        """From the open ones to these. `now` is when that was found, before any of them wakes: what was decided longer
        ago than that loses against what is decided since. Said again with another moment, the earlier one counts."""
        ...

    def wake(self, now: datetime, most: int) -> Sequence[BurstKey]:
        """Back to the open ones those whose moment has come, so many at most; which they are."""
        ...

    def count(self) -> int:
        """How many are listed; more than a look at a few rows, so not for every second."""
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


# Everything in the store, as facts for outsiders: what `notifier dump` prints and checks read.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    member_range: int
    row: InboxRow


class Archive(Protocol):
    """Streams, in an order of the store's; constant memory whatever the size. Raises StoreUnavailable."""

    def bursts(self) -> Iterator[Burst]: ...

    def accounts(self) -> Iterator[BurstProgress]: ...

    def seals(self, burst: BurstKey) -> Iterator[Seal]:
        """By shard."""
        ...

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        """Of one burst, or of all."""
        ...
