"""Stores retractions and the keys that lead to mentions, and erases authors' text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import BUCKETS, FINAL, KEPT, bucket_of_event, seconds_until
from notifier.adapters.cassandra.stores.dead_letters import letter_of
from notifier.adapters.cassandra.stores.moderation import COLUMNS, PUT_EVENT, held_mentions_of
from notifier.codec import pack, unpack
from notifier.codec.storage import to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.retraction import Retraction, RetractionKey, index_keys
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.coordination import Clock
from notifier.ports.event_log import DeadLetter
from notifier.ports.retractions import MentionLocation

PUT_KEY = """
    INSERT INTO mentions_by_retraction_key (retraction_key, subject, seq, source, id) VALUES (?, ?, ?, ?, ?)
    USING TTL ?
"""
CHANGE = statement("change_mention")
BLANK = statement("blank_mention")
# The rank is the write timestamp.
_RETRACT = "INSERT INTO retractions (retraction_key, blob) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?"
_READ_CURRENT = "SELECT retraction_key, blob FROM retractions WHERE retraction_key IN ?"
_LOCATIONS = "SELECT subject, seq, source, id FROM mentions_by_retraction_key WHERE retraction_key = ?"
_IN_BURST = f"{_LOCATIONS} AND subject = ? AND seq = ?"
_READ = "SELECT blob, changed FROM mentions WHERE subject = ? AND seq = ? AND bucket = ? AND source = ? AND id = ?"
_MENTIONS_OF_BUCKET = "SELECT blob, changed FROM mentions WHERE subject = ? AND seq = ? AND bucket = ?"

KEYS_AT_ONCE = 16
"""Retraction keys per query, as for event ids. Most lead to nothing, which the nodes' Bloom filters know."""
PAGE = 256
"""Mentions per page, of a kilobyte each."""


class CassandraRetractions:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def write(self, retractions: Collection[Retraction]) -> None:
        life = KEPT // timedelta(seconds=1)
        self._cluster.query_each(
            _RETRACT, [(retraction.key, pack(retraction), retraction.rank, life) for retraction in retractions]
        )

    def read_current(self, keys: Collection[RetractionKey]) -> Mapping[RetractionKey, Retraction]:
        questions = ((batch,) for batch in batches(sorted(keys), KEYS_AT_ONCE))
        answers = self._cluster.query_each(_READ_CURRENT, questions)
        return {RetractionKey(key): unpack(Retraction, blob) for rows in answers for key, blob in rows}

    def mention_locations(
        self, keys: Collection[RetractionKey], burst: BurstKey | None = None
    ) -> Iterator[MentionLocation]:
        query, within = (_LOCATIONS, ()) if burst is None else (_IN_BURST, (str(burst.subject), burst.seq))
        for key in keys:
            for subject, seq, source, id in self._cluster.query_lazily(query, (key, *within), page=PAGE):
                yield MentionLocation(BurstKey(Subject.parse(subject), seq), EventId(source, id))

    def read(self, locations: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        ordered = [*locations]
        answers = self._cluster.query_each(_READ, [_key(place.burst, place.event) for place in ordered])
        return {place: _mention(rows[0]) for place, rows in zip(ordered, answers, strict=True) if rows and rows[0].blob}

    def mentions_of_burst(self, burst: BurstKey) -> Iterator[Mention]:
        for bucket in range(BUCKETS):
            rows = self._cluster.query_lazily(_MENTIONS_OF_BUCKET, (str(burst.subject), burst.seq, bucket), page=PAGE)
            yield from (_mention(row) for row in rows if row.blob)


def retraction_key_rows(sequenced: SequencedMention, life: int) -> list[Row]:
    """Return the rows that lead to the mention."""
    mention = sequenced.mention
    where = str(mention.subject), sequenced.seq, mention.event.source, mention.event.id, life
    return [(key, *where) for key in index_keys(mention)]


def changed_rows(changed: Sequence[SequencedMention], bursts: Sequence[Burst], now: datetime) -> list[Row]:
    """Return the rows of CHANGE, each with its burst's version, without expired ones."""
    by_key = {burst.key: burst for burst in bursts}
    opened = {burst.key: burst.opened_at for burst in bursts}
    lasting = [
        (sequenced, life) for sequenced in changed if (life := seconds_until(expiry_of(sequenced, opened), now)) > 0
    ]
    return [_change(sequenced, by_key[_burst(sequenced)].version, life) for sequenced, life in lasting]


def blanked_rows(changed: Sequence[SequencedMention], bursts: Sequence[Burst], now: datetime) -> list[Row]:
    """Return the rows of BLANK for retracted mentions. A blanked row stays blank."""
    retracted = [sequenced for sequenced in changed if sequenced.mention.retracted]
    return [(FINAL, *row[1:]) for row in changed_rows(retracted, bursts, now)]


def expiry_of(sequenced: SequencedMention, opened: Mapping[BurstKey, datetime]) -> datetime:
    """Return the expiry: a day after the burst's, counted from the acceptance of the event if that is later."""
    accepted_at = sequenced.mention.accepted_at
    return max(opened.get(_burst(sequenced), accepted_at), accepted_at) + KEPT


def _change(changed: SequencedMention, version: int, life: int) -> Row:
    mention = changed.mention
    timestamp = to_ms(mention.accepted_at) * 1_000 + version
    return timestamp, life, pack(mention), *_key(_burst(changed), mention.event)


def _burst(sequenced: SequencedMention) -> BurstKey:
    return BurstKey(sequenced.mention.subject, sequenced.seq)


def _key(burst: BurstKey, event: EventId) -> Row:
    return str(burst.subject), burst.seq, bucket_of_event(event), event.source, event.id


def _mention(row: Any) -> Mention:
    return unpack(Mention, row.changed or row.blob)


# Erasure targets: other places that hold an author's text. A blanked cell has a write timestamp above all others, so
# that a repeated write of the text doesn't restore it.

ERASURE_PAGE = 64
"""Dead letters per page. Some contain a batch of rows."""

_LETTERS = "SELECT id, stage, cause, body, at FROM dead_letters"
_EMPTY = "UPDATE dead_letters USING TTL ? SET body = 0x WHERE id = ? IF EXISTS"


class CassandraErasureTargets:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def held_mentions(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        for bucket in range(BUCKETS):  # one bucket in memory at a time
            mentions = held_mentions_of(self._cluster.query(COLUMNS, (bucket,)))
            yield from (held for held in mentions if held.author in authors and held.event and held.event.text)

    def erase_held_texts(self, held_mentions: Collection[HeldMention]) -> None:
        now = self._clock.now()
        self._cluster.query_each(PUT_EVENT, [_blank(held, now) for held in held_mentions if held.event])

    def dead_letters(self) -> Iterator[DeadLetter]:
        rows = self._cluster.query_lazily(_LETTERS, page=ERASURE_PAGE)
        return (letter_of(row) for row in rows if row.body and row.at is not None)

    def erase_letter_bodies(self, letters: Collection[DeadLetter]) -> None:
        now = self._clock.now()
        lives = [(letter, seconds_until(letter.at + KEPT, now)) for letter in letters]
        # The empty body must not outlive its letter: a row without the other columns has no known origin.
        self._cluster.compare_and_set_each([(_EMPTY, (life, letter.id)) for letter, life in lives if life > 0])


def _blank(held: HeldMention, now: datetime) -> Row:
    life = max(1, seconds_until(held.since + MAX_DECISION_WAIT, now))
    return bucket_of_event(held.id), held.id.id, held.id.source, pack(held.without_text.event), FINAL, life
