"""Stores the change feed of bursts, ordered by the writers' clocks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.batching import MAX_ROWS_PER_BATCH, Row, batched_writes, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.stores.inbox_timeline import bursts_of
from notifier.codec.messagepack import to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from notifier.ports.inbox_cache_freshness import MAX_CHANGED_BURSTS, ChangesSince, FeedPosition
from notifier.ports.leases_queues_throttles_clock import Clock, Nonces

BUCKET_MS = 10_000
"""Time that a partition covers, in milliseconds. A process that polls every second reads one or two partitions."""
MAX_WRITE_DURATION = timedelta(seconds=1)
"""Maximum duration of a write. If a write takes longer, readers may already have read past the time in its rows. So the
writer repeats the write with the current time."""
MAX_ATTEMPTS = 3
READ_OVERLAP = MAX_CLOCK_SKEW + MAX_WRITE_DURATION
"""Overlap of successive reads: each read covers the rows since this long before the start of the previous read. By a
reader's clock, a row may become readable up to this long after the time in the row."""
MAX_POSITION_AGE = timedelta(minutes=5)
"""Maximum age of a valid position. Rows live for ten minutes, so no row after a valid position has expired."""
MAX_ROWS_PER_READ = 20_000
"""Maximum rows per read. A growing burst has a row for each write."""
LAPSE_SEQ = 0
"""Value of `seq` in the row of a lapse. No burst has this number."""

_PUT_CHANGE = "INSERT INTO burst_changes (bucket, at, subject, seq, version) VALUES (?, ?, ?, ?, ?)"
_SELECT_CHANGES = load_statement("read_burst_change_feed")

ChangeKey = tuple[str, int]
"""Subject and seq of a burst, or nonce and LAPSE_SEQ of a lapse."""
ReturnedChanges = Mapping[ChangeKey, tuple[int, int]]
"""Changes that a reader has returned: the highest version of each change, and the time in the newest row."""


@dataclass(frozen=True, slots=True)
class CassandraPosition(FeedPosition):
    read_at: datetime
    """Start of the last read, by this process's clock."""
    returned: ReturnedChanges = field(default_factory=dict)
    """Changes whose rows the next read may return again."""


@dataclass(frozen=True, slots=True)
class BurstChangeEntry:
    """Row of the change feed, for a burst or a lapse, without its time."""

    subject: str
    seq: int
    version: int

    @classmethod
    def of(cls, burst: Burst) -> Self:
        return cls(str(burst.key.subject), burst.key.seq, burst.version)

    def row(self, at: int) -> Row:
        return at // BUCKET_MS, at, self.subject, self.seq, self.version


def put_change_entries(
    cluster: Cluster, clock: Clock, entries: Sequence[BurstChangeEntry], other_inserts: Iterable[tuple[str, Row]] = ()
) -> None:
    """Write the entries, and other rows in the same batches. The bursts must be durable before this call.

    After StoreUnavailable some rows may be written.
    """
    extra_rows = [*other_inserts]
    for _ in range(MAX_ATTEMPTS):
        began = clock.now()
        rows = [*((_PUT_CHANGE, entry.row(to_ms(began))) for entry in entries), *extra_rows]
        cluster.query_all(batched_writes(batch) for batch in batches(rows, MAX_ROWS_PER_BATCH))
        if _is_in_time(began, clock.now()):
            return
        extra_rows = []  # they are written; only the time in the entries is too old
    raise _too_slow_error()


class CassandraViewerLapses:
    def __init__(self, cluster: Cluster, clock: Clock, nonces: Nonces) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nonces = nonces

    def record(self) -> None:
        put_change_entries(self._cluster, self._clock, [_lapse_entry(self._nonces)])


class CassandraBurstChanges:
    def __init__(self, async_queries: AsyncQueries, clock: Clock, nonces: Nonces) -> None:
        self._async_queries = async_queries
        self._clock = clock
        self._nonces = nonces

    async def begin(self) -> FeedPosition:
        return CassandraPosition(read_at=self._clock.now())

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        if not isinstance(position, CassandraPosition):
            raise TypeError(f"not a position in Cassandra: {position!r}")
        now = self._clock.now()
        if not -MAX_CLOCK_SKEW <= now - position.read_at <= MAX_POSITION_AGE:
            return None
        rows = await self._rows(min(position.read_at, now) - READ_OVERLAP, now + MAX_CLOCK_SKEW)
        new_changes, returned = _new_changes(rows, position.returned)
        changed = [BurstKey(Subject.parse(subject), seq) for subject, seq in new_changes if seq != LAPSE_SEQ]
        if len(rows) == MAX_ROWS_PER_READ or len(changed) > MAX_CHANGED_BURSTS:
            return None
        # Read the bursts only after their rows: each burst is then at least as new as the version in its row.
        bursts = await bursts_of(self._async_queries, changed)
        next_read_start = to_ms(now - READ_OVERLAP)
        return ChangesSince(
            bursts=[bursts[key] for key in changed if key in bursts],
            has_viewer_lapse=len(changed) < len(new_changes),  # the other changes are lapses
            position=CassandraPosition(
                now, {key: (version, at) for key, (version, at) in returned.items() if at >= next_read_start}
            ),
        )

    async def record_viewer_lapse(self) -> None:
        entry = _lapse_entry(self._nonces)
        for _ in range(MAX_ATTEMPTS):
            began = self._clock.now()
            await self._async_queries(_PUT_CHANGE, entry.row(to_ms(began)))
            if _is_in_time(began, self._clock.now()):
                return
        raise _too_slow_error()

    async def _rows(self, first: datetime, last: datetime) -> list[Any]:
        """Return the rows from `first` on, oldest first. Read no bucket after that of `last`."""
        since = to_ms(first)
        buckets = [*range(since // BUCKET_MS, to_ms(last) // BUCKET_MS + 1)]
        return sorted(await self._async_queries(_SELECT_CHANGES, (buckets, since, MAX_ROWS_PER_READ)))


def _new_changes(rows: Iterable[Any], returned: ReturnedChanges) -> tuple[Sequence[ChangeKey], ReturnedChanges]:
    """Return the changes that are new or have a higher version, and `returned` with the rows added.

    The new changes are ordered by the first row that has their highest version.
    """
    new_changes, returned = dict[ChangeKey, None](), dict(returned)
    for at, subject, seq, version in rows:
        key = subject, seq
        returned_version, _ = returned.get(key, (-1, 0))
        if returned_version < version:
            new_changes.pop(key, None)
            new_changes[key] = None
        returned[key] = max(returned_version, version), at
    return list(new_changes), returned


def _is_in_time(began: datetime, ended: datetime) -> bool:
    """Return whether the write took at most MAX_WRITE_DURATION. Return False also if the clock was set back."""
    return timedelta(0) <= ended - began <= MAX_WRITE_DURATION


def _too_slow_error() -> StoreUnavailable:
    return StoreUnavailable(f"Each write to the change feed took longer than {MAX_WRITE_DURATION.total_seconds():g} s.")


def _lapse_entry(nonces: Nonces) -> BurstChangeEntry:
    return BurstChangeEntry(nonces.new(), LAPSE_SEQ, 0)
