"""Change feed of bursts, ordered by the writers' clocks; readers poll it with an overlap."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.batching import MAX_ROWS_PER_BATCH, Row, batched_inserts, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.stores.timeline import bursts_of
from notifier.codec.storage import to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock, Nonces
from notifier.ports.inbox_versions import FEED_CLOCK_SKEW, MAX_CHANGED_BURSTS, ChangesSince, FeedPosition

BUCKET_MS = 10_000
"""Length of a partition in milliseconds. A reader that polls every second reads one or two partitions."""
WRITTEN_WITHIN = timedelta(seconds=1)
"""Maximum duration of a write. A slower row may be older than what readers still read; it is written again with the
current time."""
TRIES = 3
OVERLAP = FEED_CLOCK_SKEW + WRITTEN_WITHIN
"""How far the time of a row may be behind the end of its write, by a reader's clock."""
OLDEST = timedelta(minutes=5)
"""Maximum age of a position. Rows live for ten minutes: a position becomes invalid long before its next rows expire."""
ROWS = 20_000
"""Maximum rows per read. A growing burst has a row for each write."""
LAPSE = 0
"""The seq of a lapse. No burst has it."""

_PUT = "INSERT INTO burst_changes (bucket, at, subject, seq, version) VALUES (?, ?, ?, ?, ?)"
_AFTER = load_statement("read_burst_changes")

Changed = tuple[str, int]
"""Subject and seq of a burst, or nonce and LAPSE of a lapse."""
Returned = Mapping[Changed, tuple[int, int]]
"""Maps a change to the version that was returned and the time of its newest row."""


@dataclass(frozen=True, slots=True)
class CassandraPosition(FeedPosition):
    moment: datetime
    """Start of the last read, by this process's clock."""
    returned: Returned = field(default_factory=dict)
    """Returned changes whose rows may be read again."""


@dataclass(frozen=True, slots=True)
class BurstChangeEntry:
    """Row of the change feed without its time."""

    subject: str
    seq: int
    version: int

    @classmethod
    def of(cls, burst: Burst) -> Self:
        return cls(str(burst.key.subject), burst.key.seq, burst.version)

    def row(self, at: int) -> Row:
        return at // BUCKET_MS, at, self.subject, self.seq, self.version


def put_entries(
    cluster: Cluster, clock: Clock, entries: Sequence[BurstChangeEntry], other_inserts: Iterable[tuple[str, Row]] = ()
) -> None:
    """Write the entries, and other rows in the same batches. Call it once the bursts are durable.

    Raises StoreUnavailable: some entries may be written.
    """
    extra_rows = [*other_inserts]
    for _ in range(TRIES):
        began = clock.now()
        rows = [*((_PUT, entry.row(to_ms(began))) for entry in entries), *extra_rows]
        cluster.query_all(batched_inserts(batch) for batch in batches(rows, MAX_ROWS_PER_BATCH))
        if _is_in_time(began, clock.now()):
            return
        extra_rows = []
    raise _too_slow()


class CassandraViewerLapses:
    def __init__(self, cluster: Cluster, clock: Clock, nonces: Nonces) -> None:
        self._cluster = cluster
        self._clock = clock
        self._nonces = nonces

    def record(self) -> None:
        put_entries(self._cluster, self._clock, [_lapse_entry(self._nonces)])


class CassandraBurstChanges:
    def __init__(self, reader: CassandraReader, clock: Clock, nonces: Nonces) -> None:
        self._reader = reader
        self._clock = clock
        self._nonces = nonces

    async def begin(self) -> FeedPosition:
        return CassandraPosition(moment=self._clock.now())

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        if not isinstance(position, CassandraPosition):
            raise TypeError(f"not a position in Cassandra: {position!r}")
        now = self._clock.now()
        if not -FEED_CLOCK_SKEW <= now - position.moment <= OLDEST:
            return None
        rows = await self._rows(min(position.moment, now) - OVERLAP, now + FEED_CLOCK_SKEW)
        new, returned = _news(rows, position.returned)
        changed = [BurstKey(Subject.parse(subject), seq) for subject, seq in new if seq != LAPSE]
        if len(rows) == ROWS or len(changed) > MAX_CHANGED_BURSTS:
            return None
        # Read the bursts after the rows: each burst is then at least as new as its row says.
        bursts = await bursts_of(self._reader, changed)
        floor = to_ms(now - OVERLAP)
        return ChangesSince(
            bursts=[bursts[key] for key in changed if key in bursts],
            viewers_lapsed=len(changed) < len(new),
            position=CassandraPosition(now, {key: entry for key, entry in returned.items() if entry[1] >= floor}),
        )

    async def record_viewer_lapse(self) -> None:
        entry = _lapse_entry(self._nonces)
        for _ in range(TRIES):
            began = self._clock.now()
            await self._reader(_PUT, entry.row(to_ms(began)))
            if _is_in_time(began, self._clock.now()):
                return
        raise _too_slow()

    async def _rows(self, first: datetime, last: datetime) -> list[Any]:
        """Return the rows from `first` on, oldest first. `last` only bounds the buckets."""
        since = to_ms(first)
        buckets = [*range(since // BUCKET_MS, to_ms(last) // BUCKET_MS + 1)]
        return sorted(await self._reader(_AFTER, (buckets, since, ROWS)))


def _news(rows: Iterable[Any], returned: Returned) -> tuple[Sequence[Changed], Returned]:
    """Return the new changes, ordered by their newest rows, and all changes returned so far."""
    new, returned = dict[Changed, None](), dict(returned)
    for at, subject, seq, version in rows:
        key = subject, seq
        before, _ = returned.get(key, (-1, 0))
        if before < version:
            new.pop(key, None)
            new[key] = None
        returned[key] = max(before, version), at
    return list(new), returned


def _is_in_time(began: datetime, ended: datetime) -> bool:
    """Return whether readers still read the time in the row. A negative duration means that the clock was set back."""
    return timedelta(0) <= ended - began <= WRITTEN_WITHIN


def _too_slow() -> StoreUnavailable:
    return StoreUnavailable(f"Each write to the change feed took longer than {WRITTEN_WITHIN.total_seconds():g} s.")


def _lapse_entry(nonces: Nonces) -> BurstChangeEntry:
    return BurstChangeEntry(nonces.new(), LAPSE, 0)
