"""Stores devices in core.db.

A device has one row: its latest registration or removal, by any user.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from notifier.adapters.sqlite.connections_and_transactions import Database, batches
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.codec.devices_send_log_suppressions import pack_registration, unpack_registration
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, from_offsets, member_spans, no_members
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.ports.leases_queues_throttles_clock import Clock

UPDATES_PER_TRANSACTION = 1_024
MAX_EXPIRED_PER_TRANSACTION = 64

_PUT_DEVICE = load_statement("put_device")
_DELETE_EXPIRED = "DELETE FROM devices WHERE rowid IN (SELECT rowid FROM devices WHERE at <= ? LIMIT ?)"
_SELECT_OWNERSHIPS = """
    SELECT device, platform, member, at, registration IS NULL FROM devices
    WHERE device IN (SELECT value FROM json_each(?)) AND at > ?
"""
_SELECT_OF_MEMBERS = """
    SELECT member, registration, at FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member IN (SELECT value FROM json_each(?))
        AND registration IS NOT NULL AND at > ?
    ORDER BY platform, device
"""
_SELECT_OF_MEMBER_SPAN = """
    SELECT member, registration, at FROM devices
    WHERE platform = ? AND member BETWEEN ? AND ? AND registration IS NOT NULL AND at > ?
    ORDER BY member, device
"""
_SELECT_MEMBERS = """
    SELECT DISTINCT member FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member BETWEEN ? AND ? AND registration IS NOT NULL AND at > ?
"""


class SqliteDevices:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        for batch in batches(updates, UPDATES_PER_TRANSACTION):
            with self._db.write() as c:
                c.executemany(_PUT_DEVICE, map(_row, batch))
                c.execute(_DELETE_EXPIRED, (self._expired_until(), MAX_EXPIRED_PER_TRANSACTION))

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        with self._db.read() as c:
            rows = c.execute(_SELECT_OWNERSHIPS, (json.dumps(list(ids)), self._expired_until())).fetchall()
        return {
            DeviceId(id): DeviceOwnership(
                member=Member(member), platform=Platform(platform), at=from_ms(at), is_removed=bool(is_removed)
            )
            for id, platform, member, at, is_removed in rows
        }

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        with self._db.read() as c:
            rows = c.execute(_SELECT_OF_MEMBERS, (json.dumps(list(members)), self._expired_until())).fetchall()
        devices = defaultdict[Member, list[Device]](list)
        for device in _devices(rows):
            devices[device.member].append(device)
        return dict(devices)

    def iter_devices(self, platform: Platform, shard: int, members: Bits) -> Iterator[Device]:
        for first, last in member_spans(members, shard):
            with self._db.read() as c:
                rows = c.execute(_SELECT_OF_MEMBER_SPAN, (str(platform), first, last, self._expired_until())).fetchall()
            yield from _devices(row for row in rows if contains(members, row[0]))

    def members_with_device(self, shard: int) -> Bits:
        first = shard * SHARD_MEMBERS
        with self._db.read() as c:
            rows = c.execute(_SELECT_MEMBERS, (first, first + SHARD_MEMBERS - 1, self._expired_until())).fetchall()
        return from_offsets([member - first for (member,) in rows]) if rows else no_members()

    def _expired_until(self) -> int:
        return to_ms(self._clock.now() - DEVICE_KEPT_FOR)


def _row(update: DeviceUpdate) -> tuple[object, ...]:
    at, _, member = update.rank
    return (
        update.id,
        str(update.platform),
        member,
        to_ms(at),
        pack_registration(update) if isinstance(update, Device) else None,
    )


def _devices(rows: Iterable[tuple[int, bytes, int]]) -> Iterator[Device]:
    return (unpack_registration(Member(member), packed, at) for member, packed, at in rows)
