"""Stores bursts, their mentions, sequence heads, and the outcomes of events.

A burst is in three tables:

- `bursts`, by (subject, run) with run = seq // 1024, holds the burst's current state.
- `burst_runs` has a row per run. Each burst of the run opened at the `opened_at` of this row, or later.
- `bursts_by_hour` has a row that points to the burst, by the hour of its opening and the bucket of its subject.

If a burst gets a new opening, its former row in `bursts_by_hour` stays. A reader of that table also reads the bursts,
and skips a row whose burst is missing or has a different opening.

A mention is in `mentions`, in the bucket of its event's id. Rows in `mention_ids` and `mentions_by_retraction_key`
point to the mention.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from notifier.adapters.cassandra.driver.batching import MAX_ROWS_PER_BATCH, Row, batched_rows, batches
from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import (
    BUCKETS,
    ROW_LIFETIME,
    bucket_of_event,
    bucket_of_subject,
    hour_of,
    run_of,
    seconds_until,
)
from notifier.adapters.cassandra.stores.burst_change_feed import BurstChangeEntry, put_change_entries
from notifier.adapters.cassandra.stores.retractions_and_text_erasure import (
    CHANGE_MENTION,
    ERASE_MENTION_TEXT,
    PUT_LOOKUP_KEY,
    changed_rows,
    erased_rows,
    expiry_of,
    lookup_key_rows,
)
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.bursts.burst import RETENTION, Burst, expires_at
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.bursts import MentionOutcome
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock

_PUT_BURST = load_statement("put_burst")
_PUT_MENTION_ID = load_statement("put_mention_id")
_SELECT_RUN = "SELECT opened_at FROM burst_runs WHERE subject = ? AND run = ?"
# No TTL is bound. Each burst writes the row of its run again, and the table's default TTL is longer than a burst lives.
_PUT_RUN = "INSERT INTO burst_runs (subject, run, opened_at) VALUES (?, ?, ?)"
_PUT_HOUR = "INSERT INTO bursts_by_hour (hour, bucket, opened_at, subject, seq) VALUES (?, ?, ?, ?, ?) USING TTL ?"
_PUT_MENTION = "INSERT INTO mentions (subject, seq, bucket, source, id, blob) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?"
_PUT_REFUSAL = "INSERT INTO mention_ids (id, source, account, subject, refusal) VALUES (?, ?, ?, '', ?) USING TTL ?"
_SELECT_BURST = "SELECT blob FROM bursts WHERE subject = ? AND run = ? AND seq = ?"
_SELECT_KNOWN_IDS = "SELECT id FROM mention_ids WHERE id IN ? AND source = ? AND account = ? AND subject = ?"
_SELECT_OUTCOMES = "SELECT source, account, subject, seq, refusal FROM mention_ids WHERE id = ?"
_SELECT_OUTCOMES_OF_SOURCE = f"{_SELECT_OUTCOMES} AND source = ?"

_PARTITION_KEY = itemgetter(0, 1, 2)
"""Partition key of a mention row: subject, seq and bucket."""

IDS_PER_QUERY = 16
"""Ids in one query. A node's Bloom filter rejects most ids without a read, so more ids cost less than more queries."""
MAX_REMEMBERED_BURSTS = 4_096
"""Number of remembered bursts above which all are forgotten."""

TtlSeconds = int
OutcomeRow = tuple[str, str, str, int | None, str | None]
"""Source, account, subject, seq and refusal."""


class CassandraBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._written_openings: dict[BurstKey, datetime] = {}
        """Opening of each remembered burst when this process last wrote the burst's run and hour rows."""

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        now = self._clock.now()
        unexpired = [(b, ttl) for b in bursts if (ttl := seconds_until(expires_at(b.opened_at), now)) > 0]
        openings = {burst.key: burst.opened_at for burst in bursts}
        unexpired_mentions = [(s, ttl) for s in mentions if (ttl := seconds_until(expiry_of(s, openings), now)) > 0]
        # The order of the steps makes a crash between them safe:
        #
        # 1. The run and hour rows, the mentions and their lookup keys. Readers skip rows that point to a missing
        #    burst. Once the burst exists, all of these rows exist.
        # 2. The burst.
        # 3. The ids of mentions: `known_events` must return an event only once its burst can be read. Together with
        #    the ids, the change feed: a process that reads a change must then read a burst at least as new.
        # 4. Changed mentions. The caller repeats this method until it succeeds.

        # Skip the run and hour rows that this process has written for the same opening. That saves up to one read and
        # two writes each time a known burst is written.
        with_new_opening = [
            (burst, ttl) for burst, ttl in unexpired if self._written_openings.get(burst.key) != burst.opened_at
        ]
        by_bucket = groupby(
            sorted((_mention_row(s, ttl) for s, ttl in unexpired_mentions), key=_PARTITION_KEY), _PARTITION_KEY
        )
        mention_batches = [batch for _, rows in by_bucket for batch in batches(rows, MAX_ROWS_PER_BATCH)]
        lookup_key_batches = batches(
            (row for s, ttl in unexpired_mentions for row in lookup_key_rows(s, ttl)), MAX_ROWS_PER_BATCH
        )
        writes = [(_PUT_MENTION, mention_batches), (PUT_LOOKUP_KEY, lookup_key_batches)]
        self._cluster.query_all(
            [
                *self._run_and_hour_inserts(with_new_opening),
                *(batched_rows(put, batch) for put, row_batches in writes for batch in row_batches),
            ]
        )
        self._remember_openings(burst for burst, _ in with_new_opening)
        self._cluster.query_each(_PUT_BURST, [_burst_row(burst, ttl) for burst, ttl in unexpired])
        ids = ((_PUT_MENTION_ID, _mention_id_row(sequenced, ttl)) for sequenced, ttl in unexpired_mentions)
        put_change_entries(self._cluster, self._clock, [BurstChangeEntry.of(burst) for burst, _ in unexpired], ids)
        self._cluster.query_each(CHANGE_MENTION, changed_rows(changed, bursts, now))
        self._cluster.query_each(ERASE_MENTION_TEXT, erased_rows(changed, bursts, now))

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        results = self._cluster.query_each(
            _SELECT_BURST, [(str(key.subject), run_of(key.seq), key.seq) for key in keys]
        )
        return {burst.key: burst for burst in (unpack(Burst, blob) for rows in results for (blob,) in rows)}

    def known_events(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        queries = [
            (subject, source, ids)
            for subject, subject_events in events.items()
            for source, group in groupby(sorted(subject_events), key=attrgetter("source"))
            for ids in batches((event.id for event in group), IDS_PER_QUERY)
        ]
        parameters = [(ids, source, subject.owner, str(subject)) for subject, source, ids in queries]
        known: dict[Subject, set[EventId]] = {subject: set() for subject in events}
        for (subject, source, _), rows in zip(
            queries, self._cluster.query_each(_SELECT_KNOWN_IDS, parameters), strict=True
        ):
            known[subject] |= {EventId(source, id) for (id,) in rows}
        return known

    def record_refusals(self, outcomes: Sequence[MentionOutcome]) -> None:
        # The time of the event is not known here, so the TTL starts now. If an event is refused twice, the later
        # refusal wins. Either is correct.
        ttl = ROW_LIFETIME // timedelta(seconds=1)
        rows = [(o.event.id, o.event.source, o.account, o.refusal, ttl) for o in outcomes]
        self._cluster.query_each(_PUT_REFUSAL, rows)

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        rows = (
            self._cluster.query(_SELECT_OUTCOMES, (id,))
            if source is None
            else self._cluster.query(_SELECT_OUTCOMES_OF_SOURCE, (id, source))
        )
        return [_outcome(id, tuple(row)) for row in rows]

    def _run_and_hour_inserts(self, bursts: Sequence[tuple[Burst, TtlSeconds]]) -> Iterator[tuple[str, Row]]:
        yield from ((_PUT_RUN, run) for run in self._run_rows(burst for burst, _ in bursts))
        yield from ((_PUT_HOUR, _hour_row(burst, ttl)) for burst, ttl in bursts)

    def _remember_openings(self, bursts: Iterable[Burst]) -> None:
        if len(self._written_openings) > MAX_REMEMBERED_BURSTS:
            self._written_openings.clear()
        self._written_openings |= {burst.key: burst.opened_at for burst in bursts}

    def _run_rows(self, bursts: Iterable[Burst]) -> Sequence[tuple[str, int, int]]:
        """Return the row of each run, with the earliest opening among these bursts and the stored row.

        The read-modify-write is safe: a subject's bursts are published one after another, in the order of its head.
        """
        earliest: dict[tuple[str, int], int] = {}
        for burst in bursts:
            run = str(burst.key.subject), run_of(burst.key.seq)
            earliest[run] = min(earliest.get(run, to_ms(burst.opened_at)), to_ms(burst.opened_at))
        results = self._cluster.query_each(_SELECT_RUN, earliest)
        return [
            (*run, min([opened_at, *(stored for (stored,) in rows)]))
            for (run, opened_at), rows in zip(earliest.items(), results, strict=True)
        ]


def _hour_row(burst: Burst, ttl: TtlSeconds) -> tuple[object, ...]:
    subject, ms = burst.key.subject, to_ms(burst.opened_at)
    return hour_of(ms), bucket_of_subject(subject), ms, str(subject), burst.key.seq, ttl


def _burst_row(burst: Burst, ttl: TtlSeconds) -> tuple[object, ...]:
    key, opened_at, restricted_to = burst.key, to_ms(burst.opened_at), burst.restricted_to or ""
    row = str(key.subject), run_of(key.seq), key.seq, burst.version, opened_at, restricted_to, pack(burst)
    return *row, burst.version, ttl


def _mention_row(sequenced: SequencedMention, ttl: TtlSeconds) -> tuple[object, ...]:
    mention = sequenced.mention
    event = mention.event
    return str(mention.subject), sequenced.seq, bucket_of_event(event), event.source, event.id, pack(mention), ttl


def _mention_id_row(sequenced: SequencedMention, ttl: TtlSeconds) -> tuple[object, ...]:
    mention, seq = sequenced.mention, sequenced.seq
    event, subject = mention.event, mention.subject
    # If two bursts have the event, the one with the lower number wins: see `put_mention_id.cql`.
    timestamp = to_ms(mention.happened_at) * 1_000 - seq
    return event.id, event.source, subject.owner, str(subject), seq, timestamp, ttl


def _outcome(id: str, row: OutcomeRow) -> MentionOutcome:
    source, account, subject, seq, refusal = row
    return MentionOutcome(
        event=EventId(source, id),
        account=UserId(account),
        burst=None if seq is None else BurstKey(Subject.parse(subject), seq),
        refusal=None if refusal is None else MentionRefusal(refusal),
    )


# Bursts of all subjects, newest first, read hour by hour. The buckets of an hour are merged, with one page of each
# bucket in memory.

_SELECT_PAGE = load_statement("read_recent_bursts")
READ_AHEAD = timedelta(hours=1)
"""How far openings are read into the future, because a writer's clock may be ahead of ours.

A subject's later bursts then open in the future, too: a burst always opens after its predecessor.
"""
MAX_TIME = (1 << 63) - 1
"""Later than the opening of every burst."""

RecentEntry = tuple[int, str, int]
"""Opening, subject and seq of a burst. Entries sort as the positions of their bursts do."""


class CassandraRecentBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._bursts = CassandraBursts(cluster, clock)

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        entries = self._entries(moment, after, limit)
        bursts: list[Burst] = []
        while len(bursts) < limit and (page := list(islice(entries, limit - len(bursts)))):
            bursts += self._bursts_of(page)
        return bursts

    def _bursts_of(self, page: Sequence[RecentEntry]) -> Sequence[Burst]:
        """Return the bursts of the entries. Skip an entry whose burst got a new opening: a newer entry exists."""
        positions = [InboxPosition(from_ms(ms), BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in page]
        bursts = self._bursts.read([position.burst for position in positions])
        return [
            bursts[position.burst]
            for position in positions
            if position.burst in bursts and bursts[position.burst].opened_at == position.opened_at
        ]

    def _entries(self, moment: datetime, after: InboxPosition | None, limit: int) -> Iterator[RecentEntry]:
        now = self._clock.now()
        earliest, latest = to_ms(max(moment, now - RETENTION)), to_ms(now + READ_AHEAD)
        start = (MAX_TIME, "", 0)
        if after is not None:
            start = to_ms(after.opened_at), str(after.burst.subject), after.burst.seq
        for hour in range(hour_of(min(start[0], latest)), hour_of(earliest) - 1, -1):
            yield from self._entries_of_hour(hour, start, earliest, max(1, limit // BUCKETS))

    def _entries_of_hour(
        self, hour: int, start: RecentEntry, earliest: int, rows_per_page: int
    ) -> Iterator[RecentEntry]:
        """Yield the entries after `start`, newest first, down to the opening time `earliest`."""
        first_pages = self._cluster.query_each(
            _SELECT_PAGE, [(hour, bucket, *start, earliest, rows_per_page) for bucket in range(BUCKETS)]
        )
        buckets = [
            self._entries_of_bucket(hour, bucket, page, earliest, rows_per_page)
            for bucket, page in enumerate(first_pages)
        ]
        yield from merge(*buckets, reverse=True)

    def _entries_of_bucket(
        self, hour: int, bucket: int, page: Sequence[RecentEntry], earliest: int, rows_per_page: int
    ) -> Iterator[RecentEntry]:
        while page:
            yield from map(tuple, page)
            if len(page) < rows_per_page:
                return
            page = self._cluster.query(_SELECT_PAGE, (hour, bucket, *page[-1], earliest, rows_per_page))


# Sequence heads: each is replaced only by its next version, decided by Paxos.

_SELECT_HEAD = "SELECT blob FROM sequence_heads WHERE subject = ?"
_SELECT_VERSION = "SELECT version, nonce FROM sequence_heads WHERE subject = ?"
_INSERT_HEAD = (
    "INSERT INTO sequence_heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
)
_UPDATE_HEAD = (
    "UPDATE sequence_heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? IF version = ?"
)
_SELECT_UNPUBLISHED = "SELECT subject FROM sequence_heads WHERE published = false LIMIT ?"


class CassandraHeads:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        # Read at SERIAL, to complete an interrupted compare-and-set: the next compare-and-set depends on the result.
        results = self._cluster.query_each(_SELECT_HEAD, [(str(subject),) for subject in subjects], profile=SERIAL)
        stored = {head.subject: head for head in (unpack(Head, blob) for rows in results for (blob,) in rows)}
        return {subject: stored.get(subject) or Head.empty(subject) for subject in subjects}

    def compare_and_set(self, heads: Sequence[Head]) -> Sequence[bool]:
        applied = self._cluster.compare_and_set_each(_replacement(head) for head in heads)
        # Read what is stored. A write may have taken effect although the response says that it was refused, or although
        # its response was lost.
        doubtful = [head for head, was_applied in zip(heads, applied, strict=True) if not was_applied]
        results = self._cluster.query_each(_SELECT_VERSION, [(str(head.subject),) for head in doubtful], profile=SERIAL)
        stored = {
            head.subject: tuple(rows[0]) if rows else (0, "") for head, rows in zip(doubtful, results, strict=True)
        }
        return [
            was_applied or _is_ours(head, was_applied, *stored[head.subject])
            for head, was_applied in zip(heads, applied, strict=True)
        ]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        # This plain read of the index may miss a compare-and-set whose Paxos round was interrupted. That is harmless:
        #
        # - If the write made the head unpublished, the log records that caused the write are read again until their
        #   work is done. Each attempt loads the head at SERIAL, which completes the round.
        # - If the write made the head published, the head is listed in vain. The process that is about to publish the
        #   head loads it at SERIAL, which completes the round and shows that nothing is left to do.
        return [Subject.parse(subject) for (subject,) in self._cluster.query(_SELECT_UNPUBLISHED, (limit,))]


def _replacement(head: Head) -> tuple[str, tuple[object, ...]]:
    row = (head.version, head.nonce, head.is_published, pack(head), str(head.subject))
    return (_INSERT_HEAD, row) if head.version == 1 else (_UPDATE_HEAD, (*row, head.version - 1))


def _is_ours(head: Head, was_applied: bool | None, version: int, nonce: str) -> bool:
    """Return whether the stored head is ours, although our write was refused or its response was lost.

    `version` and `nonce` were read at SERIAL after the write. Each write has a nonce of its own. Raises
    StoreUnavailable if the write may still take effect: its response was lost, and the stored version is lower.
    """
    if was_applied is None and version < head.version:
        raise StoreUnavailable(f"Unknown whether the head of {head.subject} was replaced.")
    return (version, nonce) == (head.version, head.nonce)
