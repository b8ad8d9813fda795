"""Everything in the store, as facts for outsiders: what `notifier dump` prints and checks read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.audience.snapshot import Seal
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Account
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    member_range: int
    row: InboxRow


class Archive(Protocol):
    """Streams, in an order of the store's; constant memory whatever the size. Raises StoreUnavailable."""

    def bursts(self) -> Iterator[Burst]: ...

    def accounts(self) -> Iterator[Account]: ...

    def seals(self, burst: BurstKey) -> Iterator[Seal]:
        """By shard."""
        ...

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        """Of one burst, or of all."""
        ...
