"""The leases: one row each, taken by compare-and-set; whose clock it is read by is the owner's."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import StoreUnavailable
from notifier.ports.coordination import Clock

# The audit: append-only, each row's hash over the one before it, so that no row can be changed unseen.

PAGE = 500
TRIES = 16
"""Of numbers that others took first; operators are few."""
BOOK = "audit"

_LAST = f"SELECT number, hash FROM audit WHERE book = '{BOOK}' LIMIT 1"
_ADD = f"INSERT INTO audit (book, number, hash, body) VALUES ('{BOOK}', ?, ?, ?) IF NOT EXISTS"
_HASH = f"SELECT hash FROM audit WHERE book = '{BOOK}' AND number = ?"
_AFTER = f"SELECT number, hash, body FROM audit WHERE book = '{BOOK}' AND number > ? ORDER BY number ASC LIMIT ?"


def record(cluster: Cluster, *, at: datetime, who: str, what: str, detail: Mapping[str, object]) -> None:
    """To be called before the deed: there is no deed without its row, though a crash may leave a row without its deed.

    Raises StoreUnavailable when the row isn't known to stand; then the deed must not be done.
    """
    entry = {"at": at.isoformat(), "who": who, "what": what, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    for _ in range(TRIES):
        last = cluster.ask(_LAST, profile=SERIAL)
        number, before = last[0] if last else (0, b"")
        if _added(cluster, number + 1, _chained(before, body), body):
            return
    raise StoreUnavailable("Others write to the audit all the time.")


def entries(cluster: Cluster) -> Iterator[tuple[bytes, bool]]:
    """The bodies, oldest first, each with whether it and its place are as they were written."""
    number, before = 0, b""
    while page := cluster.ask(_AFTER, (number, PAGE)):
        for _, found, body in page:
            yield body, found == _chained(before, body)
            before = found
        number = page[-1].number


def _added(cluster: Cluster, number: int, hash: bytes, body: bytes) -> bool:
    """A row without an answer is known again by its hash: it stands for the same words at the same place."""
    [applied] = cluster.decide_each([(_ADD, (number, hash, body))])
    if applied is not None:
        return applied
    if not (stored := cluster.ask(_HASH, (number,), profile=SERIAL)):
        raise StoreUnavailable("Whether the audit has the row isn't known yet.")
    return bool(stored[0][0] == hash)


def _chained(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()


_READ = "SELECT owner, until FROM leases WHERE name = ?"
_FIRST = "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE leases SET owner = ?, until = ? WHERE name = ? IF owner = ? AND until = ?"


class CassandraLeases:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        # A swap whose answer is lost raises: whoever doesn't know leads nobody, and finds the lease his next time.
        until = to_ms(now + term)
        stored = self._cluster.ask(_READ, (name,), profile=SERIAL)
        if not stored:
            return self._cluster.decide(_FIRST, (name, owner, until))
        holder, ends = stored[0]
        if holder != owner and ends > to_ms(now):
            return False
        return self._cluster.decide(_NEXT, (owner, until, name, holder, ends))


# The throttles: all in one partition, changed by compare-and-set, each change written to the audit before it.

_FIRST_throttles = statement("first_throttle")
_REPLACE = statement("replace_throttle")
_LIFT = statement("lift_throttle")
_ALL = "SELECT id, tier, rate, reason, who, starts_at, ends_at FROM throttles WHERE book = 'throttles'"
_ONE = f"{_ALL} AND id = ?"
_PAUSE = 0.0
"""A throttle has a rate above 0, or none: a cell that is always written leaves no tombstone."""


class CassandraThrottles:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, throttle: Throttle) -> None:
        detail = {"throttle": _told(throttle)}
        record(self._cluster, at=throttle.starts_at, who=throttle.who, what="throttle.put", detail=detail)
        # A crash here leaves a word about a throttle that never was; the other way round nobody would know who set it.
        row = (*_row(throttle), seconds_until(throttle.ends_at + RETENTION, self._clock.now()))
        if not self._decide(_FIRST_throttles, row, throttle) and not self._decide(
            _REPLACE, (*row[-1:], *row[:-1]), throttle
        ):
            raise StoreUnavailable("The throttle ended for good while it was replaced.")

    def lift(self, id: str, who: str, now: datetime) -> Throttle | None:
        found = self._cluster.ask(_ONE, (id,), profile=SERIAL)
        if not found or (throttle := _throttle(found[0])).ends_at <= now:
            return None
        lifted = dataclasses.replace(throttle, ends_at=now)
        record(self._cluster, at=now, who=who, what="throttle.lift", detail={"throttle": _told(lifted)})
        # As in `put`; of two who lift it at the same moment both are in the audit, and one is told None.
        row = (seconds_until(now + RETENTION, self._clock.now()), *_row(lifted), to_ms(throttle.ends_at))
        return lifted if self._decide(_LIFT, row, lifted) else None

    def since(self, moment: datetime) -> Sequence[Throttle]:
        # A plain read: who set one was answered once it could be read so, or was told that nobody knows.
        found = [_throttle(row) for row in self._cluster.ask(_ALL)]
        return sorted((t for t in found if t.ends_at > moment), key=lambda throttle: (throttle.starts_at, throttle.id))

    def _decide(self, statement: str, values: tuple[object, ...], throttle: Throttle) -> bool:
        """Whether it was applied; without an answer, whether the throttle stands as it was to be. Else this raises."""
        [applied] = self._cluster.decide_each([(statement, values)])
        if applied is not None:
            return applied
        found = self._cluster.ask(_ONE, (throttle.id,), profile=SERIAL)
        if not found or _throttle(found[0]) != throttle:
            raise StoreUnavailable("Whether the throttle was set isn't known yet.")
        return True


def _row(t: Throttle) -> tuple[object, ...]:
    return str(t.tier), t.rate or _PAUSE, t.reason, t.who, to_ms(t.starts_at), to_ms(t.ends_at), t.id


def _throttle(row: tuple[str, str, float, str, str, int, int]) -> Throttle:
    id, tier, rate, reason, who, starts_at, ends_at = row
    return Throttle(
        id=id,
        tier=Tier(tier),
        rate=rate or None,
        reason=reason,
        who=who,
        starts_at=from_ms(starts_at),
        ends_at=from_ms(ends_at),
    )


def _told(throttle: Throttle) -> dict[str, object]:
    told = dataclasses.asdict(throttle)
    return told | {"starts_at": throttle.starts_at.isoformat(), "ends_at": throttle.ends_at.isoformat()}
