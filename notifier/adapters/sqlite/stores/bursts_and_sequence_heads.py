"""Stores bursts, mentions, sequence heads and outcomes of events in core.db."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import keys_as_json, load_statement
from notifier.adapters.sqlite.stores.burst_change_feed import BurstChangeWriter
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import (
    CHANGE_MENTION,
    PUT_LOOKUP_KEY,
    change_parameters,
    lookup_key_rows,
)
from notifier.codec import pack, unpack
from notifier.codec.messagepack import to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, SequencedMention
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.bursts import MentionOutcome
from notifier.ports.inbox import InboxPosition

_PUT_BURST = load_statement("put_burst")
_SELECT_BURSTS = load_statement("read_bursts_by_key")
_SELECT_OUTCOMES = load_statement("read_event_outcomes")
_SELECT_RECENT = load_statement("read_recent_bursts")
_PUT_MENTION = "INSERT OR IGNORE INTO mentions (subject, seq, source, id, blob) VALUES (?, ?, ?, ?, ?)"
_PUT_MENTION_ID = "INSERT OR IGNORE INTO mention_ids (id, source, account, subject, seq) VALUES (?, ?, ?, ?, ?)"
_PUT_REFUSAL = "INSERT OR IGNORE INTO mention_ids (id, source, account, subject, refusal) VALUES (?, ?, ?, '', ?)"
_SELECT_KNOWN_ID = "SELECT 1 FROM mention_ids WHERE id = ? AND source = ? AND account = ? AND subject = ?"

MAX_TIME = (1 << 63) - 1
"""Greater than every stored time: the largest integer in SQLite."""

OutcomeRow = tuple[str, str, str, int | None, str | None]
"""Source, account, subject, seq, refusal."""


class SqliteBursts:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._changes = BurstChangeWriter()

    def write(
        self, bursts: Sequence[Burst], mentions: Sequence[SequencedMention], changed: Sequence[SequencedMention] = ()
    ) -> None:
        # One transaction, so that no crash leaves a known mention without its burst.
        with self._db.write() as c:
            c.executemany(_PUT_BURST, [_burst_row(burst) for burst in bursts])
            c.executemany(_PUT_MENTION, [_mention_row(sequenced) for sequenced in mentions])
            c.executemany(PUT_LOOKUP_KEY, [row for sequenced in mentions for row in lookup_key_rows(sequenced)])
            c.executemany(_PUT_MENTION_ID, [_mention_id_row(sequenced) for sequenced in mentions])
            versions = {burst.key: burst.version for burst in bursts}
            c.executemany(CHANGE_MENTION, [change_parameters(sequenced, versions) for sequenced in changed])
            self._changes.put(c, versions)

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        with self._db.read() as c:
            blobs = c.execute(_SELECT_BURSTS, (keys_as_json(keys),)).fetchall()
        return {burst.key: burst for burst in (unpack(Burst, blob) for (blob,) in blobs)}

    def known_events(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        with self._db.read() as c:
            return {
                subject: {
                    e
                    for e in subject_events
                    if c.execute(_SELECT_KNOWN_ID, (e.id, e.source, subject.owner, str(subject))).fetchone()
                }
                for subject, subject_events in events.items()
            }

    def record_refusals(self, outcomes: Sequence[MentionOutcome]) -> None:
        rows = [(o.event.id, o.event.source, o.account, o.refusal) for o in outcomes]
        with self._db.write() as c:
            c.executemany(_PUT_REFUSAL, rows)

    def outcomes(self, source: str | None, id: str) -> Sequence[MentionOutcome]:
        with self._db.read() as c:
            return [_outcome(id, row) for row in c.execute(_SELECT_OUTCOMES, {"id": id, "source": source})]


class SqliteRecentBursts:
    def __init__(self, db: Database) -> None:
        self._db = db

    def opened_since(self, moment: datetime, after: InboxPosition | None, limit: int) -> Sequence[Burst]:
        position = (to_ms(after.opened_at), str(after.burst.subject), after.burst.seq) if after else (MAX_TIME, "", 0)
        with self._db.read() as c:
            blobs = c.execute(_SELECT_RECENT, (to_ms(moment), *position, limit)).fetchall()
        return [unpack(Burst, blob) for (blob,) in blobs]


def _burst_row(burst: Burst) -> tuple[str, int, int, int, str, bytes]:
    key, restricted_to = burst.key, burst.restricted_to or ""
    return str(key.subject), key.seq, burst.version, to_ms(burst.opened_at), restricted_to, pack(burst)


def _mention_row(sequenced: SequencedMention) -> tuple[str, int, str, str, bytes]:
    mention = sequenced.mention
    return str(mention.subject), sequenced.seq, mention.event.source, mention.event.id, pack(mention)


def _mention_id_row(sequenced: SequencedMention) -> tuple[str, str, str, str, int]:
    event, subject = sequenced.mention.event, sequenced.mention.subject
    return event.id, event.source, subject.owner, str(subject), sequenced.seq


def _outcome(id: str, row: OutcomeRow) -> MentionOutcome:
    source, account, subject, seq, refusal = row
    return MentionOutcome(
        event=EventId(source, id),
        account=UserId(account),
        burst=None if seq is None else BurstKey(Subject.parse(subject), seq),
        refusal=None if refusal is None else MentionRefusal(refusal),
    )


# Sequence heads in core.db: a head is replaced only by its next version.

_SELECT_HEADS = "SELECT blob FROM sequence_heads WHERE subject IN (SELECT value FROM json_each(?))"
_SELECT_UNPUBLISHED = "SELECT subject FROM sequence_heads WHERE published = 0 ORDER BY subject LIMIT ?"
_INSERT_HEAD = "INSERT OR IGNORE INTO sequence_heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?)"
_UPDATE_HEAD = (
    "UPDATE sequence_heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? AND version = ? - 1"
)
_SELECT_SAME_HEAD = "SELECT 1 FROM sequence_heads WHERE subject = ? AND version = ? AND nonce = ?"


class SqliteHeads:
    def __init__(self, db: Database) -> None:
        self._db = db

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        with self._db.read() as c:
            blobs = c.execute(_SELECT_HEADS, (json.dumps([str(subject) for subject in subjects]),)).fetchall()
        stored = {head.subject: head for head in (unpack(Head, blob) for (blob,) in blobs)}
        return {subject: stored.get(subject) or Head.empty(subject) for subject in subjects}

    def compare_and_set(self, heads: Sequence[Head]) -> Sequence[bool]:
        with self._db.write() as c:
            return [_compare_and_set(c, head) for head in heads]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        with self._db.read() as c:
            return [Subject.parse(subject) for (subject,) in c.execute(_SELECT_UNPUBLISHED, (limit,))]


def _compare_and_set(c: sqlite3.Connection, head: Head) -> bool:
    subject = str(head.subject)
    row = (head.version, head.nonce, head.is_published, pack(head), subject)
    swapped = c.execute(_INSERT_HEAD, row) if head.version == 1 else c.execute(_UPDATE_HEAD, (*row, head.version))
    if swapped.rowcount == 1:
        return True
    # The same head may be stored already, if a write is repeated. Its nonce is unique.
    return c.execute(_SELECT_SAME_HEAD, (subject, head.version, head.nonce)).fetchone() is not None
