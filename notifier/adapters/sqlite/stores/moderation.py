"""Stores held mentions, and operators' verdicts on authors, in core.db.

A decision or verdict and its audit row are one transaction.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import append_to_audit
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.held_mention import (
    HELD_MENTION_KEPT_FOR,
    MAX_DECISION_WAIT,
    HeldMention,
    ModerationDecision,
)
from notifier.domain.bursts.moderation import AuthorVerdict, Verdict, audit_fields
from notifier.domain.ids import UserId
from notifier.ports.leases_queues_throttles_clock import Clock

ROWS_PER_PAGE = 500

HELD_COLUMNS = "id, source, author, accounts, since, event, decision"
_INSERT_MENTION = f"INSERT OR IGNORE INTO held_mentions ({HELD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL)"
_DELETE_EXPIRED_TEXTS = "UPDATE held_mentions SET event = NULL WHERE since <= ? AND event IS NOT NULL"
_DELETE_EXPIRED = "DELETE FROM held_mentions WHERE since <= ?"
_SELECT_WAITING = (
    f"SELECT {HELD_COLUMNS}, rowid FROM held_mentions WHERE decision IS NULL AND since > ? AND (since, rowid) > (?, ?)"
    " ORDER BY since, rowid LIMIT ?"
)
_COUNT_WAITING = "SELECT count(*) FROM held_mentions WHERE decision IS NULL AND since > ?"
_SELECT_BY_IDS = (
    f"SELECT {HELD_COLUMNS} FROM held_mentions WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id, source"
)
_DECIDE_MENTION = "UPDATE held_mentions SET decision = ? WHERE id = ? AND source = ? AND decision IS NULL AND since > ?"

HeldMentionRow = tuple[str, str, str, bytes, int, bytes | None, str | None]


class SqliteHeldMentions:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def put(self, held_mentions: Collection[HeldMention]) -> None:
        """Store the mentions, and delete expired texts and rows."""
        now = self._clock.now()
        with self._db.write() as c:
            c.executemany(_INSERT_MENTION, [_parameters(held) for held in held_mentions])
            c.execute(_DELETE_EXPIRED_TEXTS, (to_ms(now - MAX_DECISION_WAIT),))
            c.execute(_DELETE_EXPIRED, (to_ms(now - HELD_MENTION_KEPT_FOR),))

    def waiting(self) -> Iterator[HeldMention]:
        expired_until = to_ms(self._clock.now() - MAX_DECISION_WAIT)
        last_since, last_rowid = expired_until, 0
        while page := self._page(expired_until, last_since, last_rowid):
            yield from (held_mention_of(row[:7]) for row in page)
            last_since, last_rowid = page[-1][4], page[-1][7]

    def _page(
        self, expired_until: int, last_since: int, last_rowid: int
    ) -> list[tuple[str, str, str, bytes, int, bytes, None, int]]:
        with self._db.read() as c:
            return c.execute(_SELECT_WAITING, (expired_until, last_since, last_rowid, ROWS_PER_PAGE)).fetchall()

    def count(self) -> int:
        with self._db.read() as c:
            return int(c.execute(_COUNT_WAITING, (to_ms(self._clock.now() - MAX_DECISION_WAIT),)).fetchone()[0])

    def by_event_id(self, ids: Collection[str]) -> Sequence[HeldMention]:
        with self._db.read() as c:
            return [held_mention_of(row) for row in c.execute(_SELECT_BY_IDS, (json.dumps(list(ids)),))]

    def decide(self, event: EventId, decision: ModerationDecision, operator: str, now: datetime) -> bool:
        with self._db.write() as c:
            if not c.execute(
                _DECIDE_MENTION, (str(decision), event.id, event.source, to_ms(now - MAX_DECISION_WAIT))
            ).rowcount:
                return False
            append_to_audit(
                c,
                at=now,
                operator=operator,
                action=f"held_mention.{decision}",
                detail={"source": event.source, "id": event.id},
            )
            return True


def _parameters(held: HeldMention) -> tuple[object, ...]:
    return held.id.id, held.id.source, held.author, pack(held.accounts), to_ms(held.since), pack(held.event)


def held_mention_of(row: HeldMentionRow) -> HeldMention:
    id, source, author, accounts, since, event, decision = row
    return HeldMention(
        id=EventId(source, id),
        author=UserId(author),
        accounts=unpack(tuple[UserId, ...], accounts),
        since=from_ms(since),
        event=None if event is None else unpack(Event, event),
        decision=None if decision is None else ModerationDecision(decision),
    )


_PUT_VERDICT = load_statement("put_author_verdict")
_SELECT_ALL_VERDICTS = "SELECT user, verdict, reason, operator, at FROM author_verdicts ORDER BY user"
_SELECT_VERDICTS_OF_USERS = (
    "SELECT user, verdict, reason, operator, at FROM author_verdicts WHERE user IN (SELECT value FROM json_each(?))"
)


class SqliteAuthorVerdicts:
    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, author_verdict: AuthorVerdict) -> None:
        with self._db.write() as c:
            c.execute(
                _PUT_VERDICT,
                (
                    author_verdict.user,
                    str(author_verdict.verdict),
                    author_verdict.reason,
                    author_verdict.operator,
                    to_ms(author_verdict.at),
                ),
            )
            append_to_audit(
                c,
                at=author_verdict.at,
                operator=author_verdict.operator,
                action="verdict.set",
                detail=audit_fields(author_verdict),
            )

    def read_current(self, users: Collection[UserId]) -> Mapping[UserId, AuthorVerdict]:
        with self._db.read() as c:
            author_verdicts = [
                _author_verdict(row) for row in c.execute(_SELECT_VERDICTS_OF_USERS, (json.dumps(list(users)),))
            ]
        return {author_verdict.user: author_verdict for author_verdict in author_verdicts}

    def read_all(self) -> Sequence[AuthorVerdict]:
        with self._db.read() as c:
            return [_author_verdict(row) for row in c.execute(_SELECT_ALL_VERDICTS)]


def _author_verdict(row: tuple[str, str, str, str, int]) -> AuthorVerdict:
    user, verdict, reason, operator, at = row
    return AuthorVerdict(user=UserId(user), verdict=Verdict(verdict), reason=reason, operator=operator, at=from_ms(at))
