"""Stores retractions and the lookup keys of mentions, and erases authors' text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import (
    BUCKETS,
    ERASURE_WRITE_TIMESTAMP,
    ROW_LIFETIME,
    bucket_of_event,
    seconds_until,
)
from notifier.adapters.cassandra.stores.dead_letters import letter_of
from notifier.adapters.cassandra.stores.moderation import (
    PUT_HELD_EVENT,
    SELECT_HELD_MENTIONS_OF_BUCKET,
    held_mentions_of,
)
from notifier.codec import pack, unpack
from notifier.codec.messagepack import to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention
from notifier.domain.bursts.retraction import LookupKey, Retraction, RetractionKey, mention_lookup_keys
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.event_log_and_dead_letters import DeadLetter
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.moderation_and_retractions import MentionLocation

PUT_LOOKUP_KEY = """
    INSERT INTO mentions_by_retraction_key (retraction_key, subject, seq, source, id) VALUES (?, ?, ?, ?, ?)
    USING TTL ?
"""
CHANGE_MENTION = load_statement("change_mention")
ERASE_MENTION_TEXT = load_statement("erase_mention_text")
# The write timestamp is the rank of the retraction: the highest rank wins.
_PUT_RETRACTION = "INSERT INTO retractions (retraction_key, blob) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?"
_SELECT_RETRACTIONS = "SELECT retraction_key, blob FROM retractions WHERE retraction_key IN ?"
_SELECT_LOCATIONS = "SELECT subject, seq, source, id FROM mentions_by_retraction_key WHERE retraction_key = ?"
_SELECT_LOCATIONS_IN_BURST = f"{_SELECT_LOCATIONS} AND subject = ? AND seq = ?"
_SELECT_MENTION = """
    SELECT blob, changed AS changed_blob FROM mentions
    WHERE subject = ? AND seq = ? AND bucket = ? AND source = ? AND id = ?
"""
_SELECT_MENTIONS_OF_BUCKET = """
    SELECT blob, changed AS changed_blob FROM mentions WHERE subject = ? AND seq = ? AND bucket = ?
"""

KEYS_PER_QUERY = 16
"""Retraction keys in one query. A node's Bloom filter rejects most keys without a read, so more keys cost less than
more queries."""
MENTIONS_PER_PAGE = 256
"""Mentions, or locations of mentions, per page. A mention takes about a kilobyte."""


class CassandraRetractions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, retractions: Collection[Retraction]) -> None:
        ttl = ROW_LIFETIME // timedelta(seconds=1)
        self._cluster.query_each(
            _PUT_RETRACTION, [(retraction.key, pack(retraction), retraction.rank, ttl) for retraction in retractions]
        )

    def read_current(self, keys: Collection[RetractionKey]) -> Mapping[RetractionKey, Retraction]:
        queries = ((batch,) for batch in batches(sorted(keys), KEYS_PER_QUERY))
        results = self._cluster.query_each(_SELECT_RETRACTIONS, queries)
        return {RetractionKey(key): unpack(Retraction, blob) for rows in results for key, blob in rows}

    def mention_locations(
        self, keys: Collection[LookupKey], burst: BurstKey | None = None
    ) -> Iterator[MentionLocation]:
        query, burst_values = (
            (_SELECT_LOCATIONS, ()) if burst is None else (_SELECT_LOCATIONS_IN_BURST, (str(burst.subject), burst.seq))
        )
        for key in keys:
            for subject, seq, source, id in self._cluster.query_lazily(
                query, (key, *burst_values), rows_per_page=MENTIONS_PER_PAGE
            ):
                yield MentionLocation(BurstKey(Subject.parse(subject), seq), EventId(source, id))

    def read_mentions(self, locations: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        ordered = [*locations]
        results = self._cluster.query_each(
            _SELECT_MENTION, [_mention_key(location.burst, location.event) for location in ordered]
        )
        return {
            location: _mention(rows[0])
            for location, rows in zip(ordered, results, strict=True)
            if rows and rows[0].blob
        }

    def mentions_of_burst(self, burst: BurstKey) -> Iterator[Mention]:
        for bucket in range(BUCKETS):
            rows = self._cluster.query_lazily(
                _SELECT_MENTIONS_OF_BUCKET, (str(burst.subject), burst.seq, bucket), rows_per_page=MENTIONS_PER_PAGE
            )
            yield from (_mention(row) for row in rows if row.blob)


def lookup_key_rows(sequenced: SequencedMention, ttl: int) -> list[Row]:
    mention = sequenced.mention
    location = str(mention.subject), sequenced.seq, mention.event.source, mention.event.id
    return [(key, *location, ttl) for key in mention_lookup_keys(mention)]


def changed_rows(changed: Sequence[SequencedMention], bursts: Sequence[Burst], now: datetime) -> list[Row]:
    """Return the parameters of CHANGE_MENTION for the changed mentions that have not expired."""
    by_key = {burst.key: burst for burst in bursts}
    openings = {burst.key: burst.opened_at for burst in bursts}
    unexpired = [
        (sequenced, ttl) for sequenced in changed if (ttl := seconds_until(expiry_of(sequenced, openings), now)) > 0
    ]
    return [_change_parameters(sequenced, by_key[_burst_key(sequenced)].version, ttl) for sequenced, ttl in unexpired]


def erased_rows(changed: Sequence[SequencedMention], bursts: Sequence[Burst], now: datetime) -> list[Row]:
    """Return the parameters of ERASE_MENTION_TEXT for the retracted mentions. No later write restores the text."""
    retracted = [sequenced for sequenced in changed if sequenced.mention.retracted]
    return [(ERASURE_WRITE_TIMESTAMP, *row[1:]) for row in changed_rows(retracted, bursts, now)]


def expiry_of(sequenced: SequencedMention, openings: Mapping[BurstKey, datetime]) -> datetime:
    """Return when the mention's rows expire: ROW_LIFETIME after the later of its burst's opening and its acceptance."""
    accepted_at = sequenced.mention.accepted_at
    return max(openings.get(_burst_key(sequenced), accepted_at), accepted_at) + ROW_LIFETIME


def _change_parameters(changed: SequencedMention, version: int, ttl: int) -> Row:
    mention = changed.mention
    # A change with a higher version of the burst has a higher write timestamp: it wins, regardless of arrival order.
    timestamp = to_ms(mention.accepted_at) * 1_000 + version
    return timestamp, ttl, pack(mention), *_mention_key(_burst_key(changed), mention.event)


def _burst_key(sequenced: SequencedMention) -> BurstKey:
    return BurstKey(sequenced.mention.subject, sequenced.seq)


def _mention_key(burst: BurstKey, event: EventId) -> Row:
    return str(burst.subject), burst.seq, bucket_of_event(event), event.source, event.id


def _mention(row: Any) -> Mention:
    return unpack(Mention, row.changed_blob or row.blob)


# Erasure targets: held mentions and dead letters, which may also contain an author's text. A held mention's event is
# overwritten with one without text. A repeated write of the mention has a lower write timestamp, and restores nothing.

LETTERS_PER_PAGE = 64

_SELECT_LETTERS = "SELECT id, stage, cause, body, at FROM dead_letters"
_ERASE_LETTER_BODY = "UPDATE dead_letters USING TTL ? SET body = 0x WHERE id = ? IF EXISTS"


class CassandraErasureTargets:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def held_mentions(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        for bucket in range(BUCKETS):  # one bucket in memory at a time
            mentions = held_mentions_of(self._cluster.query(SELECT_HELD_MENTIONS_OF_BUCKET, (bucket,)))
            yield from (held for held in mentions if held.author in authors and held.event and held.event.text)

    def erase_held_texts(self, held_mentions: Collection[HeldMention]) -> None:
        now = self._clock.now()
        self._cluster.query_each(PUT_HELD_EVENT, [_erased_event_row(held, now) for held in held_mentions if held.event])

    def dead_letters(self) -> Iterator[DeadLetter]:
        rows = self._cluster.query_lazily(_SELECT_LETTERS, rows_per_page=LETTERS_PER_PAGE)
        return (letter_of(row) for row in rows if row.body and row.at is not None)

    def erase_letter_bodies(self, letters: Collection[DeadLetter]) -> None:
        now = self._clock.now()
        ttls = [(letter, seconds_until(letter.at + ROW_LIFETIME, now)) for letter in letters]
        # Give the empty body the remaining lifetime of the letter. With the table's default TTL, the body would outlive
        # the other columns, and a row with nothing but an empty body would stay.
        writes = [(_ERASE_LETTER_BODY, (ttl, letter.id)) for letter, ttl in ttls if ttl > 0]
        if None in self._cluster.compare_and_set_each(writes):
            raise StoreUnavailable("Unknown whether some dead letters were erased.")


def _erased_event_row(held: HeldMention, now: datetime) -> Row:
    ttl = max(1, seconds_until(held.since + MAX_DECISION_WAIT, now))
    return (
        bucket_of_event(held.id),
        held.id.id,
        held.id.source,
        pack(held.without_text.event),
        ERASURE_WRITE_TIMESTAMP,
        ttl,
    )
