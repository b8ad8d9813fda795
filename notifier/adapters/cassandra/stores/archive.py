"""Reads the whole keyspace page by page, in token order.

Memory use is independent of the size of the keyspace.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.stores.inbox import row_of
from notifier.adapters.cassandra.stores.snapshots import chosen_names, read_snapshots
from notifier.codec import unpack
from notifier.codec.storage import to_ms
from notifier.domain.audience.inbox_rows import SHARD_RANGES, window_of
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.plan import Plan
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.bursts import Bursts
from notifier.ports.ledger import Ledger, StoredRow

T = TypeVar("T")

PAGE = 256
"""Rows per page. A burst is a few kilobytes."""
SHARDS_AT_ONCE = 32
"""Shards whose audience snapshots are read together. A snapshot is up to 64 KiB."""
RANGES_AT_ONCE = 128

_BURSTS = "SELECT blob FROM bursts"
_PLANS = "SELECT subject, seq FROM plans"
_ROWS = "SELECT member_range, opened_at, subject, seq, tier, members FROM inbox"
_OF_BURST = load_statement("read_burst_rows")


class CassandraArchive:
    def __init__(self, cluster: Cluster, ledger: Ledger, stored: Bursts) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._stored = stored

    def bursts(self) -> Iterator[Burst]:
        return (unpack(Burst, stored.blob) for stored in self._cluster.query_lazily(_BURSTS, page=PAGE))

    def burst_progress(self) -> Iterator[BurstProgress]:
        for page in _pages(self._cluster.query_lazily(_PLANS, page=PAGE), PAGE):
            keys = [BurstKey(Subject.parse(stored.subject), stored.seq) for stored in page]
            progress = self._ledger.read(keys)
            yield from (progress[key] for key in keys if key in progress)

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        for shards in _pages(_shards(self._plan(burst)), SHARDS_AT_ONCE):
            yield from read_snapshots(self._cluster, burst, chosen_names(self._cluster, burst, shards)).values()

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        return map(_stored, self._cluster.query_lazily(_ROWS, page=PAGE) if burst is None else self._rows_of(burst))

    def _rows_of(self, burst: BurstKey) -> Iterator[Any]:
        for plan in self._plan(burst):
            # A slowly published burst may be re-stamped after it was planned and partly written: cover both openings.
            moments = plan.opened_at, *(stored.opened_at for stored in self._stored.read([burst]).values())
            first, last = min(moments), max(moments)
            for window in range(window_of(first), window_of(last) + 1):
                place = window, str(burst.subject), to_ms(first), to_ms(last)
                for ranges in _pages(_ranges(plan), RANGES_AT_ONCE):
                    for rows in self._cluster.query_each(
                        _OF_BURST, [(member_range, *place) for member_range in ranges]
                    ):
                        yield from (row for row in rows if row.seq == burst.seq)

    def _plan(self, burst: BurstKey) -> list[Plan]:
        """Return the plan, or nothing before planning. Snapshots and rows exist only in the shards of the plan."""
        return [progress.plan for progress in self._ledger.read([burst]).values()]


def _pages(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    iterator = iter(items)
    while page := list(islice(iterator, size)):
        yield page


def _shards(plans: Iterable[Plan]) -> Iterator[int]:
    for plan in plans:
        for first, last in plan.ranges:
            yield from range(first, last + 1)


def _ranges(plan: Plan) -> Iterator[int]:
    for shard in _shards([plan]):
        yield from range(shard * SHARD_RANGES, (shard + 1) * SHARD_RANGES)


def _stored(stored: Any) -> StoredRow:
    return StoredRow(member_range=stored.member_range, row=row_of(stored))
