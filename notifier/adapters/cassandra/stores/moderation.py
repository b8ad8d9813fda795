"""Stores held mentions, and operators' verdicts on authors.

Held mentions are partitioned by the bucket of the event's id. A mention is decided once, after an audit row is written.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import (
    BUCKETS,
    bucket_of_event,
    bucket_of_event_id,
    bucket_of_user,
    seconds_until,
)
from notifier.adapters.cassandra.stores.leases_epochs_throttles_audit import append_to_audit
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.held_mention import (
    HELD_MENTION_KEPT_FOR,
    MAX_DECISION_WAIT,
    HeldMention,
    ModerationDecision,
)
from notifier.domain.bursts.moderation import AuthorVerdict, audit_fields
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.ports.leases_queues_throttles_clock import Clock

_PUT_MENTION = load_statement("put_held_mention")
PUT_HELD_EVENT = "INSERT INTO held_mentions (bucket, id, source, event) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
_DECIDE_MENTION = load_statement("decide_held_mention")
SELECT_HELD_MENTIONS_OF_BUCKET = (
    "SELECT id, source, author, accounts, since, event, decision FROM held_mentions WHERE bucket = ?"
)
_SELECT_BY_IDS = f"{SELECT_HELD_MENTIONS_OF_BUCKET} AND id IN ?"
_SELECT_BY_EVENT = f"{SELECT_HELD_MENTIONS_OF_BUCKET} AND id = ? AND source = ?"
_SELECT_STATES = "SELECT since, decision FROM held_mentions WHERE bucket = ?"

_ONE_MICROSECOND = timedelta(microseconds=1)
_FAR_FUTURE = datetime(2200, 1, 1, tzinfo=UTC)


class CassandraHeldMentions:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, held_mentions: Collection[HeldMention]) -> None:
        now = self._clock.now()
        unexpired = [held for held in held_mentions if held.since + HELD_MENTION_KEPT_FOR > now]
        # Write the event first. A crash before the second write leaves an event without a held mention, and the router
        # holds the mention again.
        self._cluster.query_each(PUT_HELD_EVENT, [_event_row(held, now) for held in unexpired])
        self._cluster.query_each(_PUT_MENTION, [_mention_row(held, now) for held in unexpired])

    def waiting(self) -> Iterator[HeldMention]:
        now = self._clock.now()
        for bucket in range(BUCKETS):  # one bucket in memory at a time
            yield from (
                held
                for held in held_mentions_of(self._cluster.query(SELECT_HELD_MENTIONS_OF_BUCKET, (bucket,)))
                if held.is_waiting(now)
            )

    def count(self) -> int:
        expiry_limit = to_ms(self._clock.now() - MAX_DECISION_WAIT)
        results = self._cluster.query_each(_SELECT_STATES, [(bucket,) for bucket in range(BUCKETS)])
        return sum(
            row.decision is None and row.since is not None and row.since > expiry_limit
            for rows in results
            for row in rows
        )

    def by_event_id(self, ids: Collection[str]) -> Sequence[HeldMention]:
        by_bucket: defaultdict[int, list[str]] = defaultdict(list)
        for id in ids:
            if id:  # no event has the empty id
                by_bucket[bucket_of_event_id(id)].append(id)
        mentions = held_mentions_of(
            [row for rows in self._cluster.query_each(_SELECT_BY_IDS, list(by_bucket.items())) for row in rows]
        )
        return sorted(mentions, key=lambda held: (held.id.id, held.id.source))

    def decide(self, event: EventId, decision: ModerationDecision, operator: str, now: datetime) -> bool:
        if not any(held.is_waiting(now) for held in self._read_serial(event)):
            return False
        append_to_audit(
            self._cluster,
            at=now,
            operator=operator,
            action=f"held_mention.{decision}",
            detail={"source": event.source, "id": event.id},
        )
        # A crash here leaves an audit row without a decision. If two operators decide concurrently, both are in the
        # audit log, and one gets False.
        ttl = HELD_MENTION_KEPT_FOR // timedelta(seconds=1)
        row = ttl, str(decision), bucket_of_event(event), event.id, event.source, to_ms(now - MAX_DECISION_WAIT)
        [applied] = self._cluster.compare_and_set_each([(_DECIDE_MENTION, row)])
        if applied is not None:
            return applied
        decisions = [held.decision for held in self._read_serial(event) if held.decision]
        if not decisions:
            raise StoreUnavailable("Unknown whether the held mention was decided.")
        return decisions == [decision]

    def _read_serial(self, event: EventId) -> Sequence[HeldMention]:
        return held_mentions_of(
            self._cluster.query(_SELECT_BY_EVENT, (bucket_of_event(event), event.id, event.source), profile=SERIAL)
        )


def _event_row(held: HeldMention, now: datetime) -> tuple[object, ...]:
    return (
        *_key(held),
        pack(held.event),
        _write_timestamp(held),
        max(1, seconds_until(held.since + MAX_DECISION_WAIT, now)),
    )


def _mention_row(held: HeldMention, now: datetime) -> tuple[object, ...]:
    columns = held.author, pack(held.accounts), to_ms(held.since)
    return *_key(held), *columns, _write_timestamp(held), seconds_until(held.since + HELD_MENTION_KEPT_FOR, now)


def _key(held: HeldMention) -> tuple[object, ...]:
    return bucket_of_event(held.id), held.id.id, held.id.source


def _write_timestamp(held: HeldMention) -> int:
    """Return a write timestamp that is lower the later the event was accepted, so the first acceptance wins."""
    return (_FAR_FUTURE - held.since) // _ONE_MICROSECOND


def held_mentions_of(rows: list[Any]) -> Sequence[HeldMention]:
    """Return the held mentions. Skip rows without `since`, which have only an event or a decision."""
    return [_held_mention(row) for row in rows if row.since is not None]


def _held_mention(row: Any) -> HeldMention:
    return HeldMention(
        id=EventId(row.source, row.id),
        author=UserId(row.author),
        accounts=unpack(tuple[UserId, ...], row.accounts),
        since=from_ms(row.since),
        event=None if row.event is None else unpack(Event, row.event),
        decision=None if row.decision is None else ModerationDecision(row.decision),
    )


# Operators' verdicts on authors: a row for each author. A verdict is first written to the audit log.

# The write timestamp is the time of the verdict: the latest wins, regardless of arrival order.
_PUT_VERDICT = "INSERT INTO author_verdicts (bucket, user, verdict) VALUES (?, ?, ?) USING TIMESTAMP ?"
_SELECT_VERDICTS_OF_USERS = "SELECT verdict FROM author_verdicts WHERE bucket = ? AND user IN ?"
_SELECT_VERDICTS_OF_BUCKET = "SELECT verdict FROM author_verdicts WHERE bucket = ?"

_MICROSECONDS_PER_MS = 1_000


class CassandraAuthorVerdicts:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def put(self, author_verdict: AuthorVerdict) -> None:
        append_to_audit(
            self._cluster,
            at=author_verdict.at,
            operator=author_verdict.operator,
            action="verdict.set",
            detail=audit_fields(author_verdict),
        )
        # A crash here leaves an audit row without a verdict. In the other order a verdict could have no audit row.
        row = (
            bucket_of_user(author_verdict.user),
            author_verdict.user,
            pack(author_verdict),
            to_ms(author_verdict.at) * _MICROSECONDS_PER_MS,
        )
        self._cluster.query(_PUT_VERDICT, row)

    def read_current(self, users: Collection[UserId]) -> Mapping[UserId, AuthorVerdict]:
        by_bucket: defaultdict[int, list[UserId]] = defaultdict(list)
        for user in users:
            if user:  # no user has the empty id
                by_bucket[bucket_of_user(user)].append(user)
        return {
            author_verdict.user: author_verdict
            for author_verdict in self._author_verdicts(_SELECT_VERDICTS_OF_USERS, list(by_bucket.items()))
        }

    def read_all(self) -> Sequence[AuthorVerdict]:
        return sorted(
            self._author_verdicts(_SELECT_VERDICTS_OF_BUCKET, [(bucket,) for bucket in range(BUCKETS)]),
            key=lambda author_verdict: author_verdict.user,
        )

    def _author_verdicts(self, statement: str, parameters: Sequence[Sequence[object]]) -> Sequence[AuthorVerdict]:
        return [
            unpack(AuthorVerdict, row.verdict)
            for rows in self._cluster.query_each(statement, parameters)
            for row in rows
        ]
