"""Ports of the delivery ledger, deferred bursts, slice claims and the store scan."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.delivery.ledger import BurstProgress, Claim, LedgerEntry
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.ids import BurstKey


class Ledger(Protocol):
    """Durable record of all fan-out work; every queue can be refilled from it. Blocking.

    Raises StoreUnavailable, and DiskFull for writes.
    """

    def store_plans(self, plans: Sequence[Plan]) -> None:
        """Store each plan and list its burst as unfinished.

        Idempotent: the first plan is kept. A concurrent second plan may list the burst again, which is harmless.
        """
        ...

    def unfinished_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        """Return the list of unfinished bursts, oldest first. Deferred bursts are on a list of their own.

        With `since`, return only bursts that opened at or after it.
        """
        ...

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        """Return the progress of each burst that has a plan. Raises Poison if stored data is unreadable."""
        ...

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        """Write each entry unless one with its slice, fact and number exists; return for each whether it was written.

        For dispatched, attempt and deferred, an entry may count as existing if the slice has the same fact with a
        higher number.
        """
        ...

    def unlist(self, bursts: Collection[BurstKey]) -> None:
        """Remove the bursts from the list of unfinished bursts; their progress is kept."""
        ...


class DeferredBursts(Protocol):
    """List of deferred bursts: bursts without any work to do before a known time.

    A burst with work left is always on this list or on the list of unfinished bursts, even if a process crashes or
    stalls. For a while it may be on both, which is harmless. Durable. Blocking. Raises StoreUnavailable, and DiskFull
    for writes.
    """

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        """Move the bursts from the list of unfinished bursts to this list.

        `now` is the time of the decision, and is earlier than every wake-up time. If another process wakes a burst
        meanwhile, the newer decision applies. A burst that is deferred twice wakes at the earlier time.
        """
        ...

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        """Move at most `limit` bursts whose wake-up time has passed to the list of unfinished bursts; return them."""
        ...

    def count(self) -> int:
        """Return the number of deferred bursts. This reads more than a few rows: do not call it every second."""
        ...


class Claims(Protocol):
    """Leases on slices: one row per slice, changed by compare-and-set. Blocking.

    Raises StoreUnavailable or DiskFull.
    """

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        """Claim the slice until `until`; return None while another claim is in force.

        The claim begins at the checkpoint of the slice's previous claim.
        """
        ...

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        """Renew the claim and store its checkpoint; None if another worker has claimed the slice since.

        After None the caller must stop working on the slice.
        """
        ...

    def release(self, claim: Claim, now: datetime) -> None:
        """Release the slice and store the claim's checkpoint, unless another worker has claimed the slice since."""
        ...


# Store scan: the whole content of the store, as `notifier dump` and external checks read it.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    member_range: int
    row: InboxRow


class StoreScan(Protocol):
    """Streams in store order, with constant memory at any size. Blocking. Raises StoreUnavailable."""

    def bursts(self) -> Iterator[Burst]: ...

    def burst_progress(self) -> Iterator[BurstProgress]: ...

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]: ...

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        """Yield the rows of one burst, or of all bursts."""
        ...
