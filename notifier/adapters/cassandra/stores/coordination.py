"""Stores leases, throttles and the audit log, changed by compare-and-set.

A lease is one row. It is compared with the clock of the owner that requests it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import StoreUnavailable
from notifier.ports.coordination import Clock

# Audit log: append-only. The hash of each row covers the row before it, so that a changed row is detected.

PAGE = 500
TRIES = 16
"""Attempts if other writers take the number first. Operators are few."""
LIST_NAME = "audit"

_LAST = f"SELECT number, hash FROM audit WHERE list_name = '{LIST_NAME}' LIMIT 1"
_ADD = f"INSERT INTO audit (list_name, number, hash, body) VALUES ('{LIST_NAME}', ?, ?, ?) IF NOT EXISTS"
_HASH = f"SELECT hash FROM audit WHERE list_name = '{LIST_NAME}' AND number = ?"
_AFTER = (
    f"SELECT number, hash, body FROM audit WHERE list_name = '{LIST_NAME}' AND number > ? ORDER BY number ASC LIMIT ?"
)


def append_to_audit(cluster: Cluster, *, at: datetime, who: str, action: str, detail: Mapping[str, object]) -> None:
    """Append a row to the audit log. Call it before the operation.

    No operation is without its row, though a crash may leave a row without its operation. Raises StoreUnavailable if
    the row may be missing; then don't perform the operation.
    """
    entry = {"at": at.isoformat(), "who": who, "what": action, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    for _ in range(TRIES):
        last = cluster.query(_LAST, profile=SERIAL)
        number, previous = last[0] if last else (0, b"")
        if _append(cluster, number + 1, _chain_hash(previous, body), body):
            return
    raise StoreUnavailable("Other processes keep writing to the audit log.")


def audit_entries(cluster: Cluster) -> Iterator[tuple[bytes, bool]]:
    """Yield the bodies, oldest first, each with whether its content and position are unchanged."""
    number, previous = 0, b""
    while page := cluster.query(_AFTER, (number, PAGE)):
        for _, stored_hash, body in page:
            yield body, stored_hash == _chain_hash(previous, body)
            previous = stored_hash
        number = page[-1].number


def _append(cluster: Cluster, number: int, hash: bytes, body: bytes) -> bool:
    """Return whether the row was added. After a lost answer its hash tells, which covers content and position."""
    [applied] = cluster.compare_and_set_each([(_ADD, (number, hash, body))])
    if applied is not None:
        return applied
    if not (stored := cluster.query(_HASH, (number,), profile=SERIAL)):
        raise StoreUnavailable("Unknown whether the audit row was written.")
    return bool(stored[0][0] == hash)


def _chain_hash(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()


_READ = "SELECT owner, until FROM leases WHERE name = ?"
_FIRST = "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE leases SET owner = ?, until = ? WHERE name = ? IF owner = ? AND until = ?"


class CassandraLeases:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def acquire(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        # A swap whose answer is lost raises: the caller must not act as leader, and finds its lease at the next
        # attempt.
        until = to_ms(now + term)
        stored = self._cluster.query(_READ, (name,), profile=SERIAL)
        if not stored:
            return self._cluster.compare_and_set(_FIRST, (name, owner, until))
        holder, ends = stored[0]
        if holder != owner and ends > to_ms(now):
            return False
        return self._cluster.compare_and_set(_NEXT, (owner, until, name, holder, ends))


# Throttles: all in one partition, changed by compare-and-set. Each change is written to the audit log first.

_FIRST_THROTTLE = load_statement("insert_throttle")
_REPLACE = load_statement("replace_throttle")
_LIFT = load_statement("lift_throttle")
_ALL = "SELECT id, tier, rate, reason, operator, starts_at, ends_at FROM throttles WHERE list_name = 'throttles'"
_ONE = f"{_ALL} AND id = ?"
_PAUSE = 0.0
"""Stored rate of a throttle that pauses. Other rates are above 0. A cell that is always written leaves no tombstone."""


class CassandraThrottles:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, throttle: Throttle) -> None:
        detail = {"throttle": _audit_detail(throttle)}
        append_to_audit(self._cluster, at=throttle.starts_at, who=throttle.who, action="throttle.put", detail=detail)
        # A crash here leaves an audit row for a throttle that never existed. In the other order its author would be
        # unknown.
        row = (*_row(throttle), seconds_until(throttle.ends_at + RETENTION, self._clock.now()))
        if not self._decide(_FIRST_THROTTLE, row, throttle) and not self._decide(
            _REPLACE, (*row[-1:], *row[:-1]), throttle
        ):
            raise StoreUnavailable("The throttle ended while it was being replaced.")

    def lift(self, id: str, operator: str, now: datetime) -> Throttle | None:
        rows = self._cluster.query(_ONE, (id,), profile=SERIAL)
        if not rows or (throttle := _throttle(rows[0])).ends_at <= now:
            return None
        lifted = dataclasses.replace(throttle, ends_at=now)
        append_to_audit(
            self._cluster, at=now, who=operator, action="throttle.lift", detail={"throttle": _audit_detail(lifted)}
        )
        # As in `put`. If two operators lift it concurrently, both are in the audit log, and one gets None.
        row = (seconds_until(now + RETENTION, self._clock.now()), *_row(lifted), to_ms(throttle.ends_at))
        return lifted if self._decide(_LIFT, row, lifted) else None

    def since(self, moment: datetime) -> Sequence[Throttle]:
        # A plain read is enough: `put` succeeds only once a quorum has the throttle, and raises otherwise.
        throttles = [_throttle(row) for row in self._cluster.query(_ALL)]
        return sorted(
            (t for t in throttles if t.ends_at > moment), key=lambda throttle: (throttle.starts_at, throttle.id)
        )

    def _decide(self, statement: str, values: tuple[object, ...], throttle: Throttle) -> bool:
        """Return whether the write was applied.

        After a lost answer: return True if the throttle is stored as intended, else raise StoreUnavailable.
        """
        [applied] = self._cluster.compare_and_set_each([(statement, values)])
        if applied is not None:
            return applied
        rows = self._cluster.query(_ONE, (throttle.id,), profile=SERIAL)
        if not rows or _throttle(rows[0]) != throttle:
            raise StoreUnavailable("Unknown whether the throttle was set.")
        return True


def _row(t: Throttle) -> tuple[object, ...]:
    return str(t.tier), t.rate or _PAUSE, t.reason, t.who, to_ms(t.starts_at), to_ms(t.ends_at), t.id


def _throttle(row: tuple[str, str, float, str, str, int, int]) -> Throttle:
    id, tier, rate, reason, operator, starts_at, ends_at = row
    return Throttle(
        id=id,
        tier=Tier(tier),
        rate=rate or None,
        reason=reason,
        who=operator,
        starts_at=from_ms(starts_at),
        ends_at=from_ms(ends_at),
    )


def _audit_detail(throttle: Throttle) -> dict[str, object]:
    fields = dataclasses.asdict(throttle)
    return fields | {"starts_at": throttle.starts_at.isoformat(), "ends_at": throttle.ends_at.isoformat()}
