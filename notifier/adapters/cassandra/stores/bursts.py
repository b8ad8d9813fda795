"""Stores bursts, their mentions, sequence heads, and the outcomes of events.

A burst is in three tables:

- `bursts`, by (subject, run) with run = seq // 1024, holds the burst. Only this table has its current state.
- `burst_runs` has a row per run. Its `opened_at` is never null, and no burst of the run opened earlier.
- `bursts_by_hour`, by the hour of opening and the subject's bucket, points to the burst.

A re-stamped burst also keeps the `bursts_by_hour` row of its former opening. Readers of that table compare the burst's
own `opened_at`, and skip rows that differ or that point to no burst.

A mention is in `mentions`, in the bucket of its event's id, and in `mention_ids`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from notifier.adapters.cassandra.driver.batching import ROWS_IN_A_BATCH, Row, batched_rows, batches
from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import (
    BUCKETS,
    KEPT,
    bucket_of_event,
    bucket_of_subject,
    hour_of,
    run_of,
    seconds_until,
)
from notifier.adapters.cassandra.stores.burst_changes import BurstChangeEntry, put_entries
from notifier.adapters.cassandra.stores.retractions import (
    BLANK,
    CHANGE,
    PUT_KEY,
    blanked_rows,
    changed_rows,
    expiry_of,
    retraction_key_rows,
)
from notifier.codec import pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.bursts.burst import RETENTION, Burst, expires_at
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.bursts import MentionOutcome
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition

_PUT = statement("put_burst")
_PUT_ID = statement("put_mention_id")
_RUN = "SELECT opened_at FROM burst_runs WHERE subject = ? AND run = ?"
# A run has no explicit TTL: the table's default, counted from its last burst, outlives all of its bursts.
_PUT_RUN = "INSERT INTO burst_runs (subject, run, opened_at) VALUES (?, ?, ?)"
_PUT_HOUR = "INSERT INTO bursts_by_hour (hour, bucket, opened_at, subject, seq) VALUES (?, ?, ?, ?, ?) USING TTL ?"
_PUT_MENTION = "INSERT INTO mentions (subject, seq, bucket, source, id, blob) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?"
_REFUSE = "INSERT INTO mention_ids (id, source, account, subject, refusal) VALUES (?, ?, ?, '', ?) USING TTL ?"
_READ = "SELECT blob FROM bursts WHERE subject = ? AND run = ? AND seq = ?"
_KNOWN = "SELECT id FROM mention_ids WHERE id IN ? AND source = ? AND account = ? AND subject = ?"
_OUTCOMES = "SELECT source, account, subject, seq, refusal FROM mention_ids WHERE id = ?"
_OUTCOMES_OF_ONE = f"{_OUTCOMES} AND source = ?"

_PARTITION = itemgetter(0, 1, 2)
"""Partition key of a mention row: subject, seq and bucket."""

IDS_AT_ONCE = 16
"""Ids per query. Most are unknown; the nodes' Bloom filters answer that for less than a query costs."""
PLACED = 4_096
"""Bursts whose placement is remembered. In a storm bursts grow for a minute."""

Life = int
"""TTL in seconds."""
OutcomeRow = tuple[str, str, str, int | None, str | None]
"""Source, account, subject, seq and refusal."""


class CassandraBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._placed: dict[BurstKey, datetime] = {}

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        now = self._clock.now()
        kept = [(b, life) for b in bursts if (life := seconds_until(expires_at(b.opened_at), now)) > 0]
        opened = {burst.key: burst.opened_at for burst in bursts}
        lasting = [(s, life) for s in mentions if (life := seconds_until(expiry_of(s, opened), now)) > 0]
        # A crash between any two steps is safe. Rows that point to a missing burst are skipped. A burst that exists is
        # found by all readers, and has its mentions and the retraction keys that lead to them. Ids come last: a mention
        # is known only once its burst is readable. So does the change feed: a reader of a change then reads a burst at
        # least as new. Changed mentions are written repeatedly, until the caller succeeds.
        new = [(burst, life) for burst, life in kept if self._placed.get(burst.key) != burst.opened_at]
        by_bucket = groupby(sorted((_mention(s, life) for s, life in lasting), key=_PARTITION), _PARTITION)
        mention_rows = [batch for _, rows in by_bucket for batch in batches(rows, ROWS_IN_A_BATCH)]
        key_rows = batches((row for s, life in lasting for row in retraction_key_rows(s, life)), ROWS_IN_A_BATCH)
        writes = [(_PUT_MENTION, mention_rows), (PUT_KEY, key_rows)]
        self._cluster.query_all(
            [*self._places(new), *(batched_rows(put, batch) for put, rows in writes for batch in rows)]
        )
        self._remember(burst for burst, _ in new)
        self._cluster.query_each(_PUT, [_row(burst, life) for burst, life in kept])
        ids = ((_PUT_ID, _mention_id(sequenced, life)) for sequenced, life in lasting)
        put_entries(self._cluster, self._clock, [BurstChangeEntry.of(burst) for burst, _ in kept], ids)
        self._cluster.query_each(CHANGE, changed_rows(changed, bursts, now))
        self._cluster.query_each(BLANK, blanked_rows(changed, bursts, now))

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        results = self._cluster.query_each(_READ, [(str(key.subject), run_of(key.seq), key.seq) for key in keys])
        return {burst.key: burst for burst in (unpack(Burst, blob) for rows in results for (blob,) in rows)}

    def known_events(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        queries = [
            (subject, source, ids)
            for subject, subject_events in events.items()
            for source, group in groupby(sorted(subject_events), key=attrgetter("source"))
            for ids in batches((event.id for event in group), IDS_AT_ONCE)
        ]
        parameters = [(ids, source, subject.owner, str(subject)) for subject, source, ids in queries]
        known: dict[Subject, set[EventId]] = {subject: set() for subject in events}
        for (subject, source, _), rows in zip(queries, self._cluster.query_each(_KNOWN, parameters), strict=True):
            known[subject] |= {EventId(source, id) for (id,) in rows}
        return known

    def record_refusals(self, outcomes: Sequence[MentionOutcome]) -> None:
        # A refusal has no time to count from, so its TTL starts now. The later of two refusals wins: each is true of
        # the record that it was made for.
        life = KEPT // timedelta(seconds=1)
        rows = [(o.event.id, o.event.source, o.account, o.refusal, life) for o in outcomes]
        self._cluster.query_each(_REFUSE, rows)

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        rows = (
            self._cluster.query(_OUTCOMES, (id,))
            if source is None
            else self._cluster.query(_OUTCOMES_OF_ONE, (id, source))
        )
        return [_outcome(id, tuple(row)) for row in rows]

    def _places(self, bursts: Sequence[tuple[Burst, Life]]) -> Iterator[tuple[str, Row]]:
        """Yield the rows of the run and the hour.

        A growing burst keeps its place, and both rows live as long as it does. Remembering the placement saves one read
        and two writes for each further mention.
        """
        yield from ((_PUT_RUN, run) for run in self._runs(burst for burst, _ in bursts))
        yield from ((_PUT_HOUR, _place(burst, life)) for burst, life in bursts)

    def _remember(self, placed: Iterable[Burst]) -> None:
        if len(self._placed) > PLACED:
            self._placed.clear()
        self._placed |= {burst.key: burst.opened_at for burst in placed}

    def _runs(self, bursts: Iterable[Burst]) -> Sequence[tuple[str, int, int]]:
        """Return each run with its earliest known opening. A re-stamped burst has moved on from there.

        The read-modify-write is safe: bursts of a subject are published one after another, by its head.
        """
        begun: dict[tuple[str, int], int] = {}
        for burst in bursts:
            run = str(burst.key.subject), run_of(burst.key.seq)
            begun[run] = min(begun.get(run, to_ms(burst.opened_at)), to_ms(burst.opened_at))
        answers = self._cluster.query_each(_RUN, begun)
        return [
            (*run, min([at, *(before for (before,) in rows)]))
            for (run, at), rows in zip(begun.items(), answers, strict=True)
        ]


def _place(burst: Burst, life: Life) -> tuple[object, ...]:
    subject, ms = burst.key.subject, to_ms(burst.opened_at)
    return hour_of(ms), bucket_of_subject(subject), ms, str(subject), burst.key.seq, life


def _row(burst: Burst, life: Life) -> tuple[object, ...]:
    key, opened_at, restricted_to = burst.key, to_ms(burst.opened_at), burst.restricted_to or ""
    row = str(key.subject), run_of(key.seq), key.seq, burst.version, opened_at, restricted_to, pack(burst)
    return *row, burst.version, life


def _mention(sequenced: SequencedMention, life: Life) -> tuple[object, ...]:
    mention = sequenced.mention
    event = mention.event
    return str(mention.subject), sequenced.seq, bucket_of_event(event), event.source, event.id, pack(mention), life


def _mention_id(sequenced: SequencedMention, life: Life) -> tuple[object, ...]:
    mention, seq = sequenced.mention, sequenced.seq
    event, subject = mention.event, mention.subject
    timestamp = to_ms(mention.happened_at) * 1_000 - seq
    return event.id, event.source, subject.owner, str(subject), seq, timestamp, life


def _outcome(id: str, row: OutcomeRow) -> MentionOutcome:
    source, account, subject, seq, refusal = row
    return MentionOutcome(
        event=EventId(source, id),
        account=UserId(account),
        burst=None if seq is None else BurstKey(Subject.parse(subject), seq),
        refusal=None if refusal is None else MentionRefusal(refusal),
    )


# Bursts of all subjects, newest first: read hour by hour. The buckets of an hour are merged, with a few rows of each
# in memory.

_PAGE = statement("read_recent_bursts")
AHEAD = timedelta(hours=1)
"""A burst may open slightly in the future, by another machine's clock or to follow its predecessor."""
LAST = (1 << 63) - 1
"""Greater than every time that Cassandra can store."""

RecentEntry = tuple[int, str, int]
"""Opening, subject and seq; sorts as positions do."""


class CassandraRecentBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._bursts = CassandraBursts(cluster, clock)

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        entries = self._entries(moment, after, limit)
        bursts: list[Burst] = []
        while len(bursts) < limit and (page := list(islice(entries, limit - len(bursts)))):
            bursts += self._current(page)
        return bursts

    def _current(self, page: Sequence[RecentEntry]) -> Sequence[Burst]:
        """Return the bursts whose opening equals the entry's. A re-stamped burst has another entry."""
        places = [InboxPosition(from_ms(ms), BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in page]
        bursts = self._bursts.read([place.burst for place in places])
        return [
            bursts[place.burst]
            for place in places
            if place.burst in bursts and bursts[place.burst].opened_at == place.opened_at
        ]

    def _entries(self, moment: datetime, after: InboxPosition | None, limit: int) -> Iterator[RecentEntry]:
        now = self._clock.now()
        first, last = to_ms(max(moment, now - RETENTION)), to_ms(now + AHEAD)
        end = (LAST, "", 0)
        if after is not None:
            end = to_ms(after.opened_at), str(after.burst.subject), after.burst.seq
        for hour in range(hour_of(min(end[0], last)), hour_of(first) - 1, -1):
            yield from self._hour(hour, end, first, max(1, limit // BUCKETS))

    def _hour(self, hour: int, end: RecentEntry, first: int, size: int) -> Iterator[RecentEntry]:
        pages = self._cluster.query_each(_PAGE, [(hour, bucket, *end, first, size) for bucket in range(BUCKETS)])
        buckets = [self._bucket(hour, bucket, page, first, size) for bucket, page in enumerate(pages)]
        yield from merge(*buckets, reverse=True)

    def _bucket(
        self, hour: int, bucket: int, page: Sequence[RecentEntry], first: int, size: int
    ) -> Iterator[RecentEntry]:
        while page:
            yield from map(tuple, page)
            if len(page) < size:
                return
            page = self._cluster.query(_PAGE, (hour, bucket, *page[-1], first, size))


# Sequence heads: each is replaced only by its next version, decided by Paxos.

_LOAD = "SELECT blob FROM sequence_heads WHERE subject = ?"
_STORED = "SELECT version, nonce FROM sequence_heads WHERE subject = ?"
_FIRST = "INSERT INTO sequence_heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE sequence_heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? IF version = ?"
_UNPUBLISHED = "SELECT subject FROM sequence_heads WHERE published = false LIMIT ?"


class CassandraHeads:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        # Read at SERIAL: the next decision depends on it, and the read completes an interrupted swap.
        answers = self._cluster.query_each(_LOAD, [(str(subject),) for subject in subjects], profile=SERIAL)
        stored = {head.subject: head for head in (unpack(Head, blob) for rows in answers for (blob,) in rows)}
        return {subject: stored.get(subject) or Head.empty(subject) for subject in subjects}

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        swapped = self._cluster.compare_and_set_each(_swap(head) for head in heads)
        doubtful = [head for head, won in zip(heads, swapped, strict=True) if not won]
        answers = self._cluster.query_each(_STORED, [(str(head.subject),) for head in doubtful], profile=SERIAL)
        stored = {
            head.subject: tuple(rows[0]) if rows else (0, "") for head, rows in zip(doubtful, answers, strict=True)
        }
        return [won or _is_ours(head, won, *stored[head.subject]) for head, won in zip(heads, swapped, strict=True)]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        # A plain read of the index may miss a swap whose Paxos round was interrupted. This never hides work for good.
        # The swap that adds work belongs to records of the log, which are read again until the swap is answered and the
        # work is done. Each reader loads the head at SERIAL, which completes the round. If the swap that removed the
        # work was interrupted, the head is listed in vain, and its finisher loads it at SERIAL, too.
        return [Subject.parse(subject) for (subject,) in self._cluster.query(_UNPUBLISHED, (limit,))]


def _swap(head: Head) -> tuple[str, tuple[object, ...]]:
    row = (head.version, head.nonce, head.is_published, pack(head), str(head.subject))
    return (_FIRST, row) if head.version == 1 else (_NEXT, (*row, head.version - 1))


def _is_ours(head: Head, won: bool | None, version: int, nonce: str) -> bool:
    """Return whether a swap that was refused, or whose answer was lost, took effect, by a later read at SERIAL.

    The nonce is unique to the swap. Once the version is reached, a swap to it can no longer take effect. Before that, a
    swap without an answer still may: then this raises StoreUnavailable.
    """
    if won is None and version < head.version:
        raise StoreUnavailable(f"Unknown whether the head of {head.subject} was replaced.")
    return (version, nonce) == (head.version, head.nonce)
