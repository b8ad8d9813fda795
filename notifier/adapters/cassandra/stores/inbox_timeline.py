"""Reads bursts and inbox rows, for inbox pages."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import run_of
from notifier.adapters.cassandra.stores.inbox_rows import (
    SUBJECTS_PER_QUERY,
    BurstQuery,
    InboxRowQuery,
    InboxRowReader,
    NewestBursts,
)
from notifier.codec import unpack
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import InboxRow, window_of
from notifier.domain.bursts.burst import RETENTION, Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock

READ_AHEAD = timedelta(minutes=1)
"""How far inbox windows are read into the future, because a writer's clock may be ahead of ours."""
MAX_SUPERFLUOUS_ROWS = 30
"""Maximum superfluous rows that a query may return. So many rows cost the client less than a further query."""

_SELECT_BURSTS = "SELECT blob FROM bursts WHERE subject IN ? AND run = ? AND seq IN ?"


class CassandraTimeline:
    def __init__(self, async_queries: AsyncQueries, clock: Clock) -> None:
        self._async_queries = async_queries
        self._row_reader = InboxRowReader(async_queries=async_queries)
        self._clock = clock

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return await bursts_of(self._async_queries, keys)

    async def older_than(
        self,
        subjects: Collection[Subject],
        position: InboxPosition | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        if limit < 1:
            return []
        burst_query = BurstQuery(
            position=position, limit=limit, authors=authors, earliest_opening=0 if since is None else to_ms(since)
        )
        rows = await NewestBursts(self._async_queries, burst_query).read(subjects)
        return [unpack(Burst, blob) for *_, blob in rows]

    async def rows(
        self, member: Member, subjects: Collection[Subject], after: InboxPosition | None, limit: int
    ) -> Sequence[InboxRow]:
        if limit < 1 or not subjects:
            return []
        now = self._clock.now()
        newest_window, oldest_window = window_of(now + READ_AHEAD), window_of(now - RETENTION)
        if after is not None:
            newest_window = min(newest_window, window_of(after.opened_at))
        subject_names = [*dict.fromkeys(map(str, subjects))]
        row_query = InboxRowQuery(member=member, subjects=subject_names, position=after, limit=limit)
        return await self._row_reader.rows(row_query, range(newest_window, oldest_window - 1, -1))


async def bursts_of(async_queries: AsyncQueries, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
    wanted_keys = set(keys)
    bursts = [
        unpack(Burst, row.blob)
        for rows in await async_queries.query_each(_SELECT_BURSTS, _queries_of(wanted_keys))
        for row in rows
    ]
    return {burst.key: burst for burst in bursts if burst.key in wanted_keys}


def _queries_of(keys: Iterable[BurstKey]) -> Iterator[tuple[list[str], int, list[int]]]:
    """Yield the parameters of queries: subjects, a run (partition of bursts), and burst numbers.

    A query returns each stored burst of the run that has one of the subjects and one of the numbers. At most
    MAX_SUPERFLUOUS_ROWS of them are not among the keys. Subjects share queries, because a query costs the client 90 µs,
    and a row 2 µs.
    """
    numbers: dict[tuple[int, str], list[int]] = {}  # by run and subject
    for key in sorted(keys, key=attrgetter("seq")):
        numbers.setdefault((run_of(key.seq), str(key.subject)), []).append(key.seq)
    # Sort subjects with equal numbers side by side: a query of these has no superfluous rows.
    sorted_pairs = sorted(numbers, key=lambda pair: (pair[0], numbers[pair]))
    for run, pairs in groupby(sorted_pairs, key=itemgetter(0)):
        subjects, seqs, wanted_rows = list[str](), set[int](), 0
        for pair in pairs:
            _, subject = pair
            new_seqs, new_wanted_rows = seqs.union(numbers[pair]), wanted_rows + len(numbers[pair])
            new_rows = (len(subjects) + 1) * len(new_seqs)
            if subjects and (len(subjects) == SUBJECTS_PER_QUERY or new_rows > new_wanted_rows + MAX_SUPERFLUOUS_ROWS):
                yield subjects, run, sorted(seqs)
                subjects, new_seqs, new_wanted_rows = [], set(numbers[pair]), len(numbers[pair])
            subjects, seqs, wanted_rows = [*subjects, subject], new_seqs, new_wanted_rows
        yield subjects, run, sorted(seqs)
