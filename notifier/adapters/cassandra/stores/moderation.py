"""Stores held mentions, and operators' verdicts on mentioners.

Held mentions are partitioned by the part of the event's id. A mention is decided once, after an audit row is written.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import (
    PARTS,
    part_of_event,
    part_of_event_id,
    part_of_user,
    seconds_until,
)
from notifier.adapters.cassandra.stores.coordination import record
from notifier.codec import pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.bursts.held_mention import KNOWN, WAITS, HeldMention, ModerationDecision
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.moderation import ReachWord, told
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.ports.coordination import Clock

_PUT = statement("put_hold")
PUT_EVENT = "INSERT INTO holds (part, id, source, event) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
_DECIDE = statement("decide_hold")
COLUMNS = "SELECT id, source, author, accounts, since, event, decision FROM holds WHERE part = ?"
_OF = f"{COLUMNS} AND id IN ?"
_OF_ONE = f"{COLUMNS} AND id = ? AND source = ?"
_STATES = "SELECT since, decision FROM holds WHERE part = ?"

_MICROSECOND = timedelta(microseconds=1)
_FAR = datetime(2200, 1, 1, tzinfo=UTC)


class CassandraHolds:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, holds: Collection[HeldMention]) -> None:
        now = self._clock.now()
        current = [hold for hold in holds if hold.since + KNOWN > now]
        # Write the event first: a crash in between leaves an event that isn't listed as held, and the router writes it
        # again.
        self._cluster.ask_each(PUT_EVENT, [_event(hold, now) for hold in current])
        self._cluster.ask_each(_PUT, [_row(hold, now) for hold in current])

    def waiting(self) -> Iterator[HeldMention]:
        now = self._clock.now()
        for part in range(PARTS):  # one part in memory at a time
            yield from (hold for hold in holds_of(self._cluster.ask(COLUMNS, (part,))) if hold.waits(now))

    def count(self) -> int:
        first = to_ms(self._clock.now() - WAITS)
        answers = self._cluster.ask_each(_STATES, [(part,) for part in range(PARTS)])
        return sum(
            row.decision is None and row.since is not None and row.since > first for rows in answers for row in rows
        )

    def of(self, ids: Collection[str]) -> Sequence[HeldMention]:
        by_part: defaultdict[int, list[str]] = defaultdict(list)
        for id in ids:
            if id:  # no event has the empty id
                by_part[part_of_event_id(id)].append(id)
        holds = holds_of([row for rows in self._cluster.ask_each(_OF, list(by_part.items())) for row in rows])
        return sorted(holds, key=lambda hold: (hold.id.id, hold.id.source))

    def decide(self, event: EventId, decision: ModerationDecision, who: str, now: datetime) -> bool:
        if not any(hold.waits(now) for hold in self._now(event)):
            return False
        record(self._cluster, at=now, who=who, what=f"hold.{decision}", detail={"source": event.source, "id": event.id})
        # A crash here leaves an audit row that decided nothing. If two operators decide concurrently, both are in the
        # audit log, and one gets False.
        life = KNOWN // timedelta(seconds=1)
        row = life, str(decision), part_of_event(event), event.id, event.source, to_ms(now - WAITS)
        [applied] = self._cluster.decide_each([(_DECIDE, row)])
        if applied is not None:
            return applied
        decisions = [hold.decision for hold in self._now(event) if hold.decision]
        if not decisions:
            raise StoreUnavailable("Whether it was decided isn't known yet.")
        return decisions == [decision]

    def _now(self, event: EventId) -> Sequence[HeldMention]:
        return holds_of(self._cluster.ask(_OF_ONE, (part_of_event(event), event.id, event.source), profile=SERIAL))


def _event(hold: HeldMention, now: datetime) -> tuple[object, ...]:
    return *_place(hold), pack(hold.event), _stamp(hold), max(1, seconds_until(hold.since + WAITS, now))


def _row(hold: HeldMention, now: datetime) -> tuple[object, ...]:
    columns = hold.author, pack(hold.accounts), to_ms(hold.since)
    return *_place(hold), *columns, _stamp(hold), seconds_until(hold.since + KNOWN, now)


def _place(hold: HeldMention) -> tuple[object, ...]:
    return part_of_event(hold.id), hold.id.id, hold.id.source


def _stamp(hold: HeldMention) -> int:
    return (_FAR - hold.since) // _MICROSECOND


def holds_of(rows: list[Any]) -> Sequence[HeldMention]:
    """Return the held mentions. Rows with only an event or a decision are skipped."""
    return [_hold(row) for row in rows if row.since is not None]


def _hold(row: Any) -> HeldMention:
    return HeldMention(
        id=EventId(row.source, row.id),
        author=UserId(row.author),
        accounts=unpack(tuple[UserId, ...], row.accounts),
        since=from_ms(row.since),
        event=None if row.event is None else unpack(Event, row.event),
        decision=None if row.decision is None else ModerationDecision(row.decision),
    )


# Operators' verdicts on mentioners: a cell per user. Each verdict is written to the audit log first.

# The write timestamp is the time of the verdict: the latest wins, regardless of arrival order.
_SAY = "INSERT INTO reaches (part, user, word) VALUES (?, ?, ?) USING TIMESTAMP ?"
_STANDING = "SELECT word FROM reaches WHERE part = ? AND user IN ?"
_LISTED = "SELECT word FROM reaches WHERE part = ?"

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timestamps in microseconds."""


class CassandraReaches:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def say(self, word: ReachWord) -> None:
        record(self._cluster, at=word.at, who=word.who, what="reach.say", detail=told(word))
        # A crash here leaves an audit row without a verdict. In the other order the author of the verdict would be
        # unknown.
        row = part_of_user(word.user), word.user, pack(word), to_ms(word.at) * _MICROSECONDS
        self._cluster.ask(_SAY, row)

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        by_part: defaultdict[int, list[UserId]] = defaultdict(list)
        for user in users:
            if user:  # no user has the empty name
                by_part[part_of_user(user)].append(user)
        return {record.user: record for record in self._words(_STANDING, list(by_part.items()))}

    def listed(self) -> Sequence[ReachWord]:
        return sorted(self._words(_LISTED, [(part,) for part in range(PARTS)]), key=lambda record: record.user)

    def _words(self, statement: str, each: Sequence[Sequence[object]]) -> Sequence[ReachWord]:
        return [unpack(ReachWord, row.word) for rows in self._cluster.ask_each(statement, each) for row in rows]
