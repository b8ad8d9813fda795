"""In-memory store scan: reads all stored bursts, plans, audience snapshots and rows."""

from collections.abc import Iterator

from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryAudienceSnapshots, MemoryInboxStore
from tests.support.fakes.ledger_claims_deferred_bursts import MemoryLedger


class MemoryStoreScan:
    def __init__(
        self,
        bursts: MemoryBursts,
        ledger: MemoryLedger,
        audience_snapshots: MemoryAudienceSnapshots,
        inbox: MemoryInboxStore,
    ) -> None:
        self._bursts = bursts
        self._ledger = ledger
        self._audience_snapshots = audience_snapshots
        self._inbox = inbox

    def bursts(self) -> Iterator[Burst]:
        return (self._bursts.by_key[key] for key in sorted(self._bursts.by_key))

    def burst_progress(self) -> Iterator[BurstProgress]:
        return iter(self._ledger.read(self._ledger.planned()).values())

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        return iter(self._audience_snapshots.of(burst))

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        stored = (StoredRow(member_range=member_range, row=row) for member_range, row in self._inbox.stored())
        return (row for row in stored if burst in (None, row.row.burst))
