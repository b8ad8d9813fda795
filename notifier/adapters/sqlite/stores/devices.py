"""Stores devices in core.db.

A device is one row, so that a registration also removes the device from its former holder.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from notifier.adapters.sqlite.connection import Database, batches
from notifier.adapters.sqlite.files import load_statement
from notifier.codec.push import pack_registration, unpack_registration
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, contains, from_offsets, no_members, spans
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.ports.coordination import Clock

BATCH = 1_024
"""Device changes per transaction, so that other writers get their turn."""
SWEPT = 64
"""Expired rows deleted per transaction: more than expire while as many changes arrive."""

_WRITE = load_statement("put_device")
_SWEEP = "DELETE FROM devices WHERE rowid IN (SELECT rowid FROM devices WHERE at <= ? LIMIT ?)"
_READ_CURRENT = """
    SELECT device, platform, member, at, registration IS NULL FROM devices
    WHERE device IN (SELECT value FROM json_each(?)) AND at > ?
"""
_OF_SOME = """
    SELECT member, registration, at FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member IN (SELECT value FROM json_each(?))
        AND registration IS NOT NULL AND at > ?
    ORDER BY platform, device
"""
_OF_RANGE = """
    SELECT member, registration, at FROM devices
    WHERE platform = ? AND member BETWEEN ? AND ? AND registration IS NOT NULL AND at > ?
    ORDER BY member, device
"""
_PEOPLE = """
    SELECT DISTINCT member FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member BETWEEN ? AND ? AND registration IS NOT NULL AND at > ?
"""


class SqliteDevices:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        for batch in batches(updates, BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE, map(_row, batch))
                c.execute(_SWEEP, (self._since(), SWEPT))

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        with self._db.read() as c:
            rows = c.execute(_READ_CURRENT, (json.dumps(list(ids)), self._since())).fetchall()
        return {
            DeviceId(id): DeviceOwnership(
                member=Member(member), platform=Platform(platform), at=from_ms(at), is_removed=bool(is_removal)
            )
            for id, platform, member, at, is_removal in rows
        }

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        with self._db.read() as c:
            rows = c.execute(_OF_SOME, (json.dumps(list(members)), self._since())).fetchall()
        devices = defaultdict[Member, list[Device]](list)
        for device in _devices(rows):
            devices[device.member].append(device)
        return dict(devices)

    def iter_devices(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        for first, last in spans(people, shard):
            with self._db.read() as c:
                rows = c.execute(_OF_RANGE, (str(platform), first, last, self._since())).fetchall()
            yield from _devices(row for row in rows if contains(people, row[0]))

    def members_with_device(self, shard: int) -> Bits:
        first = shard * SHARD_MEMBERS
        with self._db.read() as c:
            rows = c.execute(_PEOPLE, (first, first + SHARD_MEMBERS - 1, self._since())).fetchall()
        return from_offsets([member - first for (member,) in rows]) if rows else no_members()

    def _since(self) -> int:
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
