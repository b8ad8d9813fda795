"""Stores leases, fencing epochs, throttles and the audit log, by compare-and-set."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import seconds_until
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import RisingCounter
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.errors import StoreUnavailable
from notifier.ports.leases_queues_throttles_clock import Clock

# Audit log: append-only. The hash of each row covers the hash of the previous row, so a changed row is detected.

ROWS_PER_PAGE = 500
MAX_ATTEMPTS = 16
"""Attempts to append a row. An attempt fails if another process takes the number first."""
AUDIT_PARTITION = "audit"
"""Value of `list_name` in all rows: the audit log is one partition."""

_SELECT_LAST_ROW = f"SELECT number, hash FROM audit WHERE list_name = '{AUDIT_PARTITION}' LIMIT 1"
_INSERT_ROW = f"INSERT INTO audit (list_name, number, hash, body) VALUES ('{AUDIT_PARTITION}', ?, ?, ?) IF NOT EXISTS"
_SELECT_HASH = f"SELECT hash FROM audit WHERE list_name = '{AUDIT_PARTITION}' AND number = ?"
_SELECT_ROWS_AFTER = (
    f"SELECT number, hash, body FROM audit WHERE list_name = '{AUDIT_PARTITION}' AND number > ?"
    " ORDER BY number ASC LIMIT ?"
)


def append_to_audit(
    cluster: Cluster, *, at: datetime, operator: str, action: str, detail: Mapping[str, object]
) -> None:
    """Append a row to the audit log, before the operation that the row records.

    A crash may then leave a row without its operation, but never an operation without its row. Raises StoreUnavailable
    if the row may be missing: the caller must then not perform the operation.
    """
    entry = {"at": at.isoformat(), "operator": operator, "action": action, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    for _ in range(MAX_ATTEMPTS):
        last = cluster.query(_SELECT_LAST_ROW, profile=SERIAL)
        number, previous_hash = last[0] if last else (0, b"")
        if _try_append(cluster, number + 1, _chain_hash(previous_hash, body), body):
            return
    raise StoreUnavailable("Other processes keep writing to the audit log.")


def audit_entries(cluster: Cluster) -> Iterator[tuple[bytes, bool]]:
    """Yield the body of each row, oldest first, and whether its content and position are unchanged."""
    number, previous_hash = 0, b""
    while page := cluster.query(_SELECT_ROWS_AFTER, (number, ROWS_PER_PAGE)):
        for _, stored_hash, body in page:
            yield body, stored_hash == _chain_hash(previous_hash, body)
            previous_hash = stored_hash
        number = page[-1].number


def _try_append(cluster: Cluster, number: int, hash: bytes, body: bytes) -> bool:
    """Return whether the row was added.

    If the response is lost, compare the stored hash with ours: a hash covers the row's content and position.
    """
    [applied] = cluster.compare_and_set_each([(_INSERT_ROW, (number, hash, body))])
    if applied is not None:
        return applied
    if not (stored := cluster.query(_SELECT_HASH, (number,), profile=SERIAL)):
        raise StoreUnavailable("Unknown whether the audit row was written.")
    return bool(stored[0][0] == hash)


def _chain_hash(previous_hash: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous_hash + body).digest()


_SELECT_LEASE = "SELECT owner, until FROM leases WHERE name = ?"
_INSERT_LEASE = "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) IF NOT EXISTS"
_UPDATE_LEASE = "UPDATE leases SET owner = ?, until = ? WHERE name = ? IF owner = ? AND until = ?"


class CassandraLeases:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def acquire(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        # Whether the stored lease has expired is judged by the clock of the caller (`now`).
        #
        # If the response of a compare-and-set is lost, this method raises, and the caller must not act as the leader.
        # If the lease was stored nevertheless, the caller's next attempt finds it.
        until = to_ms(now + term)
        stored = self._cluster.query(_SELECT_LEASE, (name,), profile=SERIAL)
        if not stored:
            return self._cluster.compare_and_set(_INSERT_LEASE, (name, owner, until))
        holder, stored_until = stored[0]
        if holder != owner and stored_until > to_ms(now):
            return False
        return self._cluster.compare_and_set(_UPDATE_LEASE, (owner, until, name, holder, stored_until))


class CassandraEpochs:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def begin(self, name: str) -> int:
        return RisingCounter(self._cluster, f"epoch of {name}").lease(1)


# Throttles: all in one partition, changed by compare-and-set. Each change is written to the audit log first.

_INSERT_THROTTLE = load_statement("insert_throttle")
_REPLACE_THROTTLE = load_statement("replace_throttle")
_END_THROTTLE = load_statement("end_throttle")
_SELECT_THROTTLES = (
    "SELECT id, tier, rate, reason, operator, starts_at, ends_at FROM throttles WHERE list_name = 'throttles'"
)
_SELECT_THROTTLE = f"{_SELECT_THROTTLES} AND id = ?"
_PAUSED_RATE = 0.0
"""Stored rate of a throttle that pauses its tier, because a null would be stored as a tombstone."""


class CassandraThrottles:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, throttle: Throttle) -> None:
        detail = {"throttle": _audit_detail(throttle)}
        append_to_audit(
            self._cluster, at=throttle.starts_at, operator=throttle.operator, action="throttle.put", detail=detail
        )
        # A crash here leaves an audit row for a change that was never made. In the other order a change could have no
        # audit row.
        row, ttl = _throttle_row(throttle), seconds_until(throttle.ends_at + RETENTION, self._clock.now())
        if self._compare_and_set(_INSERT_THROTTLE, (*row, ttl), throttle):
            return
        if not self._compare_and_set(_REPLACE_THROTTLE, (ttl, *row), throttle):
            raise StoreUnavailable("The throttle expired while it was being replaced.")

    def lift(self, id: str, operator: str, now: datetime) -> Throttle | None:
        rows = self._cluster.query(_SELECT_THROTTLE, (id,), profile=SERIAL)
        if not rows or (throttle := _throttle(rows[0])).ends_at <= now:
            return None
        lifted = dataclasses.replace(throttle, ends_at=now)
        append_to_audit(
            self._cluster, at=now, operator=operator, action="throttle.lift", detail={"throttle": _audit_detail(lifted)}
        )
        # A crash here leaves an audit row although the throttle goes on. If two operators lift the throttle
        # concurrently, both are in the audit log, and one gets None.
        ttl = seconds_until(now + RETENTION, self._clock.now())
        values = ttl, *_throttle_row(lifted), to_ms(throttle.ends_at)
        return lifted if self._compare_and_set(_END_THROTTLE, values, lifted) else None

    def ending_after(self, moment: datetime) -> Sequence[Throttle]:
        # A plain read is enough: `put` and `lift` return only once a quorum has the throttle.
        throttles = [_throttle(row) for row in self._cluster.query(_SELECT_THROTTLES)]
        return sorted(
            (t for t in throttles if t.ends_at > moment), key=lambda throttle: (throttle.starts_at, throttle.id)
        )

    def _compare_and_set(self, statement: str, values: tuple[object, ...], throttle: Throttle) -> bool:
        """Return whether the write was applied.

        After a lost response, return True if the throttle is stored as intended, else raise StoreUnavailable.
        """
        [applied] = self._cluster.compare_and_set_each([(statement, values)])
        if applied is not None:
            return applied
        rows = self._cluster.query(_SELECT_THROTTLE, (throttle.id,), profile=SERIAL)
        if not rows or _throttle(rows[0]) != throttle:
            raise StoreUnavailable("Unknown whether the throttle was changed.")
        return True


def _throttle_row(t: Throttle) -> tuple[object, ...]:
    return str(t.tier), t.rate or _PAUSED_RATE, t.reason, t.operator, to_ms(t.starts_at), to_ms(t.ends_at), t.id


def _throttle(row: tuple[str, str, float, str, str, int, int]) -> Throttle:
    id, tier, rate, reason, operator, starts_at, ends_at = row
    return Throttle(
        id=id,
        tier=Tier(tier),
        rate=rate or None,
        reason=reason,
        operator=operator,
        starts_at=from_ms(starts_at),
        ends_at=from_ms(ends_at),
    )


def _audit_detail(throttle: Throttle) -> dict[str, object]:
    fields = dataclasses.asdict(throttle)
    return fields | {"starts_at": throttle.starts_at.isoformat(), "ends_at": throttle.ends_at.isoformat()}
