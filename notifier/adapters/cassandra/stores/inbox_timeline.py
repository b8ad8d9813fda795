"""Reads inbox rows, and many subjects' newest bursts, for inbox pages."""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.batching import batches
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import run_of
from notifier.adapters.cassandra.stores.inbox_rows import MAX_INT64, SUBJECTS_PER_QUERY, InboxRowQuery, InboxRowReader
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


# The newest bursts of many subjects. A few bursts of each subject are read first. Then more are read of the subjects
# that may have further bursts in the result.

SUBJECTS_PER_GROUP = 128
"""Subjects that are read together. The bursts of the first groups limit how far back later groups are read."""
RUNS_PER_QUERY = 16
"""Maximum runs (partitions of bursts) that one query returns of each subject."""
FIRST_PAGE_BURSTS = 4
"""Bursts that the first query reads of each subject: few, because most subjects have no burst in the result."""

_SELECT_RUNS_BEFORE = load_statement("read_burst_partitions_before")
_SELECT_BURSTS_BEFORE = load_statement("read_bursts_before")

BurstRow = tuple[int, str, int, bytes]
"""Opening, subject, seq and blob of a burst. The rows sort as the positions of their bursts do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstQuery:
    """Bursts to read: at most `limit`, newest first, after the position. Without a position, the newest ones."""

    position: InboxPosition | None
    limit: int
    authors: Collection[str] | None
    """Authors whose restricted bursts are read; None for all authors."""
    earliest_opening: int
    """Time in milliseconds. Bursts that opened before are ignored."""

    @property
    def latest_opening(self) -> int:
        return MAX_INT64 if self.position is None else to_ms(self.position.opened_at)

    def is_after(self, opened_at: int, subject: str, seq: int) -> bool:
        if self.position is None:
            return True
        burst = self.position.burst
        return (opened_at, subject, seq) < (to_ms(self.position.opened_at), str(burst.subject), burst.seq)

    def admits(self, restricted_to: str | None) -> bool:
        return self.authors is None or not restricted_to or restricted_to in self.authors


@dataclass(slots=True)
class _SubjectBurstCursor:
    """Read position within the bursts of one subject. The newest burst, which has the highest number, comes first."""

    subject: str
    runs: deque[int] = field(default_factory=deque)
    """Runs (partitions of bursts) that are left to read, newest first. The first of them may be read in part."""
    seq_limit: int = MAX_INT64
    """Burst number. In the first of `runs`, only bursts with lower numbers are left to read."""
    oldest_run: int = MAX_INT64
    """Oldest run that a query has returned."""
    has_more_runs: bool = True
    last_opening: int = MAX_INT64
    taken_count: int = 0
    """Number of the subject's bursts that were candidates for the result so far."""
    is_ended: bool = False
    """Whether no further burst of the subject can be in the result."""

    def take_runs(self, runs: Sequence[int]) -> None:
        self.runs.extend(runs)
        self.oldest_run = runs[-1] if runs else self.oldest_run
        self.has_more_runs = len(runs) == RUNS_PER_QUERY
        self.is_ended = not self.runs

    def end_run(self) -> None:
        self.runs.popleft()
        self.seq_limit = MAX_INT64
        self.is_ended = not (self.runs or self.has_more_runs)


class NewestBursts:
    """Finds the newest bursts after a position, of any number of subjects. Each object is used once."""

    def __init__(self, async_queries: AsyncQueries, burst_query: BurstQuery) -> None:
        self._async_queries = async_queries
        self._burst_query = burst_query
        self._earliest_opening = burst_query.earliest_opening
        """Bursts that opened before are ignored. Once `_newest` is full, this is the oldest opening in `_newest`."""
        self._newest: list[BurstRow] = []

    async def read(self, subjects: Collection[Subject]) -> Sequence[BurstRow]:
        for batch in batches(sorted({str(subject) for subject in subjects}), SUBJECTS_PER_GROUP):
            await self._read_group([_SubjectBurstCursor(subject) for subject in batch])
        return self._newest

    async def _read_group(self, cursors: Sequence[_SubjectBurstCursor]) -> None:
        # Once the result is full, most further subjects have no burst that is new enough. Reading one burst
        # shows that.
        bursts_per_subject = min(
            FIRST_PAGE_BURSTS if len(self._newest) < self._burst_query.limit else 1, self._burst_query.limit
        )
        while cursors:
            await self._find_runs([cursor for cursor in cursors if not cursor.runs])
            bursts = await self._read_pages([cursor for cursor in cursors if not cursor.is_ended], bursts_per_subject)
            self._newest = heapq.nlargest(self._burst_query.limit, [*self._newest, *bursts])
            if len(self._newest) == self._burst_query.limit:
                self._earliest_opening = max(self._earliest_opening, self._newest[-1][0])
            cursors = [
                cursor for cursor in cursors if not cursor.is_ended and cursor.last_opening >= self._earliest_opening
            ]
            bursts_per_subject = self._burst_query.limit

    async def _find_runs(self, cursors: Iterable[_SubjectBurstCursor]) -> None:
        queries = [
            (run, batch)
            for run, group in groupby(sorted(cursors, key=attrgetter("oldest_run")), attrgetter("oldest_run"))
            for batch in batches(group, SUBJECTS_PER_QUERY)
        ]
        latest_opening = self._burst_query.latest_opening
        results = await self._async_queries.query_each(
            _SELECT_RUNS_BEFORE,
            [(_subject_names(batch), run, latest_opening, RUNS_PER_QUERY) for run, batch in queries],
        )
        for (_, batch), rows in zip(queries, results, strict=True):
            runs = _by_subject(rows)
            for cursor in batch:
                cursor.take_runs([row.run for row in runs.get(cursor.subject, ())])

    async def _read_pages(self, cursors: Iterable[_SubjectBurstCursor], bursts_per_subject: int) -> Sequence[BurstRow]:
        def run_and_limit(cursor: _SubjectBurstCursor) -> tuple[int, int]:
            return cursor.runs[0], cursor.seq_limit

        queries = [
            (run, seq_limit, batch)
            for (run, seq_limit), group in groupby(sorted(cursors, key=run_and_limit), run_and_limit)
            for batch in batches(group, SUBJECTS_PER_QUERY)
        ]
        latest_opening = self._burst_query.latest_opening
        results = await self._async_queries.query_each(
            _SELECT_BURSTS_BEFORE,
            [
                (_subject_names(batch), run, seq_limit, latest_opening, bursts_per_subject)
                for run, seq_limit, batch in queries
            ],
        )
        bursts: list[BurstRow] = []
        for (*_, batch), rows in zip(queries, results, strict=True):
            pages = _by_subject(rows)
            for cursor in batch:
                bursts += self._take_page(cursor, pages.get(cursor.subject, ()), bursts_per_subject)
        return bursts

    def _take_page(
        self, cursor: _SubjectBurstCursor, page: Sequence[Any], bursts_per_subject: int
    ) -> Sequence[BurstRow]:
        """Return the bursts of a page that may belong to the result, and move the cursor past the page."""
        bursts: list[BurstRow] = []
        for row in page:
            if row.opened_at < self._earliest_opening or cursor.taken_count == self._burst_query.limit:
                cursor.is_ended = True
                return bursts
            cursor.seq_limit, cursor.last_opening = row.seq, row.opened_at
            if self._burst_query.is_after(row.opened_at, row.subject, row.seq) and self._burst_query.admits(
                row.restricted_to
            ):
                bursts.append((row.opened_at, row.subject, row.seq, row.blob))
                cursor.taken_count += 1
        if len(page) < bursts_per_subject:
            cursor.end_run()
        return bursts


def _subject_names(cursors: Iterable[_SubjectBurstCursor]) -> list[str]:
    return [cursor.subject for cursor in cursors]


def _by_subject(rows: Iterable[Any]) -> Mapping[str, Sequence[Any]]:
    """Group rows by subject. The rows of a subject are adjacent, because a query reads one partition of it."""
    return {subject: list(group) for subject, group in groupby(rows, attrgetter("subject"))}
