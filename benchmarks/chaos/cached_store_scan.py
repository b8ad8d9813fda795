"""A store scan that reads all rows once: queries per burst are slow."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow, StoreScan


@dataclass(slots=True, kw_only=True)
class StoreScanReadOnce:
    """A snapshot: rows stored after the first read are not in it."""

    store_scan: StoreScan
    rows_by_burst: dict[BurstKey, list[StoredRow]] = field(default_factory=dict)

    def bursts(self) -> Iterator[Burst]:
        return self.store_scan.bursts()

    def burst_progress(self) -> Iterator[BurstProgress]:
        return self.store_scan.burst_progress()

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        return self.store_scan.audience_snapshots(burst)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        self.rows_by_burst = self.rows_by_burst or self._read()
        if burst is not None:
            return iter(self.rows_by_burst.get(burst, ()))
        return (stored for rows in self.rows_by_burst.values() for stored in rows)

    def _read(self) -> dict[BurstKey, list[StoredRow]]:
        rows_by_burst: dict[BurstKey, list[StoredRow]] = defaultdict(list)
        for stored in self.store_scan.rows():
            rows_by_burst[stored.row.burst].append(stored)
        return dict(rows_by_burst)
