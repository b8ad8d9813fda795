"""Reads bursts, their progress, snapshots and inbox rows page by page."""

from collections.abc import Iterable, Iterator
from typing import Any

from notifier.adapters.cassandra.driver.batching import batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.stores.audience_snapshots import chosen_snapshot_names, read_snapshots
from notifier.adapters.cassandra.stores.inbox_rows import inbox_row_of
from notifier.codec import unpack
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import SHARD_RANGES, window_of
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.plan import Plan
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.bursts import Bursts
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger, StoredRow

ROWS_PER_PAGE = 256
"""Rows per page. A burst is a few kilobytes."""
SHARDS_PER_READ = 32
"""Shards whose audience snapshots are read together. A snapshot is up to 64 KiB."""
RANGES_PER_READ = 128

_SELECT_BURSTS = "SELECT blob FROM bursts"
_SELECT_PLANS = "SELECT subject, seq FROM plans"
_SELECT_ROWS = "SELECT member_range, opened_at, subject, seq, tier, members FROM inbox"
_SELECT_ROWS_OF_BURST = load_statement("read_inbox_rows_opened_between")


class CassandraStoreScan:
    def __init__(self, cluster: Cluster, ledger: Ledger, bursts: Bursts) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._bursts = bursts

    def bursts(self) -> Iterator[Burst]:
        return (
            unpack(Burst, row.blob) for row in self._cluster.query_lazily(_SELECT_BURSTS, rows_per_page=ROWS_PER_PAGE)
        )

    def burst_progress(self) -> Iterator[BurstProgress]:
        for page in batches(self._cluster.query_lazily(_SELECT_PLANS, rows_per_page=ROWS_PER_PAGE), ROWS_PER_PAGE):
            keys = [BurstKey(Subject.parse(row.subject), row.seq) for row in page]
            progress = self._ledger.read(keys)
            yield from (progress[key] for key in keys if key in progress)

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        for shards in batches(_shards(self._plans(burst)), SHARDS_PER_READ):
            yield from read_snapshots(
                self._cluster, burst, chosen_snapshot_names(self._cluster, burst, shards)
            ).values()

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        rows = (
            self._cluster.query_lazily(_SELECT_ROWS, rows_per_page=ROWS_PER_PAGE)
            if burst is None
            else self._rows_of(burst)
        )
        return map(_stored_row, rows)

    def _rows_of(self, burst: BurstKey) -> Iterator[Any]:
        for plan in self._plans(burst):
            # A burst that becomes visible late gets a new opening time. Some of its rows may have been written before,
            # with the opening time of the plan. Read all rows from the earlier to the later time.
            openings = plan.opened_at, *(stored.opened_at for stored in self._bursts.read([burst]).values())
            first, last = min(openings), max(openings)
            for window in range(window_of(first), window_of(last) + 1):
                parameters = window, str(burst.subject), to_ms(first), to_ms(last)
                for ranges in batches(_ranges(plan), RANGES_PER_READ):
                    for rows in self._cluster.query_each(
                        _SELECT_ROWS_OF_BURST, [(member_range, *parameters) for member_range in ranges]
                    ):
                        yield from (row for row in rows if row.seq == burst.seq)

    def _plans(self, burst: BurstKey) -> list[Plan]:
        """Return a list with the burst's plan, if there is one. Snapshots and rows exist only in the plan's shards."""
        return [progress.plan for progress in self._ledger.read([burst]).values()]


def _shards(plans: Iterable[Plan]) -> Iterator[int]:
    for plan in plans:
        for first, last in plan.shard_spans:
            yield from range(first, last + 1)


def _ranges(plan: Plan) -> Iterator[int]:
    for shard in _shards([plan]):
        yield from range(shard * SHARD_RANGES, (shard + 1) * SHARD_RANGES)


def _stored_row(row: Any) -> StoredRow:
    return StoredRow(member_range=row.member_range, row=inbox_row_of(row))
