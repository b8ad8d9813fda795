"""Stores retractions and mentions' lookup keys, and erases authors' text, in core.db."""

import json
from collections.abc import Collection, Iterator, Mapping

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.dead_letters import LETTER_COLUMNS, LetterRow, letter_of
from notifier.adapters.sqlite.stores.moderation import HELD_COLUMNS, held_mention_of
from notifier.codec import pack, unpack
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.retraction import LookupKey, Retraction, RetractionKey, mention_lookup_keys
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.event_log_and_dead_letters import DeadLetter
from notifier.ports.moderation_and_retractions import MentionLocation

ROWS_PER_READ = 500
"""Long reads would delay checkpoints of the write-ahead log."""

PUT_LOOKUP_KEY = (
    "INSERT OR IGNORE INTO mentions_by_retraction_key (retraction_key, subject, seq, source, id) VALUES (?, ?, ?, ?, ?)"
)
CHANGE_MENTION = load_statement("change_mention")
_PUT_RETRACTION = load_statement("put_retraction")
_SELECT_LOCATIONS = load_statement("read_mention_locations")
_SELECT_MENTIONS_OF_BURST = load_statement("read_burst_mentions")
_SELECT_RETRACTION = "SELECT blob FROM retractions WHERE retraction_key = ?"
_SELECT_MENTION = "SELECT blob FROM mentions WHERE subject = ? AND seq = ? AND source = ? AND id = ?"


class SqliteRetractions:
    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, retractions: Collection[Retraction]) -> None:
        with self._db.write() as c:
            c.executemany(
                _PUT_RETRACTION, [(retraction.key, retraction.rank, pack(retraction)) for retraction in retractions]
            )

    def read_current(self, keys: Collection[RetractionKey]) -> Mapping[RetractionKey, Retraction]:
        with self._db.read() as c:
            rows = {key: c.execute(_SELECT_RETRACTION, (key,)).fetchone() for key in keys}
        return {key: unpack(Retraction, row[0]) for key, row in rows.items() if row}

    def mention_locations(
        self, keys: Collection[LookupKey], burst: BurstKey | None = None
    ) -> Iterator[MentionLocation]:
        for key in keys:
            yield from self._locations(key, burst)

    def read_mentions(self, locations: Collection[MentionLocation]) -> Mapping[MentionLocation, Mention]:
        with self._db.read() as c:
            rows = {
                location: c.execute(_SELECT_MENTION, _key_of_location(location)).fetchone() for location in locations
            }
        return {location: unpack(Mention, row[0]) for location, row in rows.items() if row}

    def mentions_of_burst(self, burst: BurstKey) -> Iterator[Mention]:
        position = ("", "")
        while rows := self._mentions_after(burst, position):
            yield from (unpack(Mention, blob) for *_, blob in rows)
            position = rows[-1][:2]

    def _locations(self, key: LookupKey, burst: BurstKey | None) -> Iterator[MentionLocation]:
        burst_filter = {
            "burst_subject": str(burst.subject) if burst else None,
            "burst_seq": burst.seq if burst else None,
        }
        position: tuple[str, int, str, str] = ("", 0, "", "")
        while rows := self._read_rows(
            _SELECT_LOCATIONS,
            {**burst_filter, "retraction_key": key, "limit": ROWS_PER_READ, **_named_parameters(position)},
        ):
            yield from (
                MentionLocation(BurstKey(Subject.parse(s), seq), EventId(source, id)) for s, seq, source, id in rows
            )
            position = rows[-1]

    def _mentions_after(self, burst: BurstKey, after: tuple[str, str]) -> list[tuple[str, str, bytes]]:
        with self._db.read() as c:
            return c.execute(
                _SELECT_MENTIONS_OF_BURST, (str(burst.subject), burst.seq, *after, ROWS_PER_READ)
            ).fetchall()

    def _read_rows(self, query: str, values: Mapping[str, object]) -> list[tuple[str, int, str, str]]:
        with self._db.read() as c:
            return c.execute(query, values).fetchall()


def change_parameters(changed: SequencedMention, versions: Mapping[BurstKey, int]) -> Mapping[str, object]:
    """Return the parameters of CHANGE_MENTION, with the version of the mention's burst."""
    version = versions[BurstKey(changed.mention.subject, changed.seq)]
    return {**_named_parameters(_key_of_mention(changed)), "blob": pack(changed.mention), "version": version}


def lookup_key_rows(sequenced: SequencedMention) -> list[tuple[str, str, int, str, str]]:
    return [(key, *_key_of_mention(sequenced)) for key in mention_lookup_keys(sequenced.mention)]


def _key_of_mention(sequenced: SequencedMention) -> tuple[str, int, str, str]:
    mention = sequenced.mention
    return str(mention.subject), sequenced.seq, mention.event.source, mention.event.id


def _key_of_location(location: MentionLocation) -> tuple[str, int, str, str]:
    return str(location.burst.subject), location.burst.seq, location.event.source, location.event.id


def _named_parameters(key: tuple[str, int, str, str]) -> dict[str, object]:
    return dict(zip(("subject", "seq", "source", "id"), key, strict=True))


# Erasure targets in core.db: held mentions and dead letters may also contain an author's text.

_SELECT_HELD = (
    f"SELECT {HELD_COLUMNS}, rowid FROM held_mentions WHERE author IN (SELECT value FROM json_each(?)) AND rowid > ?"
    " AND event IS NOT NULL ORDER BY rowid LIMIT ?"
)
_UPDATE_EVENT = "UPDATE held_mentions SET event = ? WHERE id = ? AND source = ? AND event IS NOT NULL"
_SELECT_LETTERS = f"SELECT {LETTER_COLUMNS} FROM dead_letters WHERE id > ? AND length(body) > 0 ORDER BY id LIMIT ?"
_ERASE_LETTER_BODY = "UPDATE dead_letters SET body = x'' WHERE id = ?"


class SqliteErasureTargets:
    def __init__(self, db: Database) -> None:
        self._db = db

    def held_mentions(self, authors: Collection[UserId]) -> Iterator[HeldMention]:
        authors_json, last_rowid = json.dumps(list(authors)), 0
        while rows := self._read_held(authors_json, last_rowid):
            for held in (held_mention_of(row[:7]) for row in rows):
                if held.event and held.event.text:
                    yield held
            last_rowid = rows[-1][7]

    def erase_held_texts(self, held_mentions: Collection[HeldMention]) -> None:
        with self._db.write() as c:
            c.executemany(
                _UPDATE_EVENT, [(pack(held.without_text.event), held.id.id, held.id.source) for held in held_mentions]
            )

    def dead_letters(self) -> Iterator[DeadLetter]:
        last_id = ""
        while rows := self._read_letters(last_id):
            yield from map(letter_of, rows)
            last_id = rows[-1][0]

    def erase_letter_bodies(self, letters: Collection[DeadLetter]) -> None:
        with self._db.write() as c:
            c.executemany(_ERASE_LETTER_BODY, [(letter.id,) for letter in letters])

    def _read_held(self, authors: str, after: int) -> list[tuple[str, str, str, bytes, int, bytes, str | None, int]]:
        with self._db.read() as c:
            return c.execute(_SELECT_HELD, (authors, after, ROWS_PER_READ)).fetchall()

    def _read_letters(self, after: str) -> list[LetterRow]:
        with self._db.read() as c:
            return c.execute(_SELECT_LETTERS, (after, ROWS_PER_READ)).fetchall()
