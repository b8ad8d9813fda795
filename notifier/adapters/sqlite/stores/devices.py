"""Stores devices in core.db.

A device is one row, so that a registration also removes the device from its former holder.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from notifier.adapters.sqlite.connection import Database, batches
from notifier.adapters.sqlite.files import statement
from notifier.codec.push import pack_told, unpack_told
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, holds, nobody, spans
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import KEPT, Device, DeviceId, DeviceWord, Holding
from notifier.ports.coordination import Clock

BATCH = 1_024
"""Device changes per transaction, so that other writers get their turn."""
SWEPT = 64
"""Expired rows deleted per transaction: more than expire while as many changes arrive."""

_WRITE = statement("say_device")
_SWEEP = "DELETE FROM devices WHERE rowid IN (SELECT rowid FROM devices WHERE at <= ? LIMIT ?)"
_STANDING = """
    SELECT device, platform, member, at, told IS NULL FROM devices
    WHERE device IN (SELECT value FROM json_each(?)) AND at > ?
"""
_OF_SOME = """
    SELECT member, told, at FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member IN (SELECT value FROM json_each(?))
        AND told IS NOT NULL AND at > ?
    ORDER BY platform, device
"""
_OF_RANGE = """
    SELECT member, told, at FROM devices
    WHERE platform = ? AND member BETWEEN ? AND ? AND told IS NOT NULL AND at > ?
    ORDER BY member, device
"""
_PEOPLE = """
    SELECT DISTINCT member FROM devices
    WHERE platform IN ('apns', 'fcm', 'web') AND member BETWEEN ? AND ? AND told IS NOT NULL AND at > ?
"""


class SqliteDevices:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def write(self, words: Collection[DeviceWord]) -> None:
        for batch in batches(words, BATCH):
            with self._db.write() as c:
                c.executemany(_WRITE, map(_row, batch))
                c.execute(_SWEEP, (self._since(), SWEPT))

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        with self._db.read() as c:
            rows = c.execute(_STANDING, (json.dumps(list(ids)), self._since())).fetchall()
        return {
            DeviceId(id): Holding(
                member=Member(member), platform=Platform(platform), at=from_ms(at), gone=bool(is_gone)
            )
            for id, platform, member, at, is_gone in rows
        }

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        with self._db.read() as c:
            rows = c.execute(_OF_SOME, (json.dumps(list(members)), self._since())).fetchall()
        devices = defaultdict[Member, list[Device]](list)
        for device in _devices(rows):
            devices[device.member].append(device)
        return dict(devices)

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        for first, last in spans(people, shard):
            with self._db.read() as c:
                rows = c.execute(_OF_RANGE, (str(platform), first, last, self._since())).fetchall()
            yield from _devices(row for row in rows if holds(people, row[0]))

    def people(self, shard: int) -> Bits:
        first = shard * SHARD_MEMBERS
        with self._db.read() as c:
            rows = c.execute(_PEOPLE, (first, first + SHARD_MEMBERS - 1, self._since())).fetchall()
        return from_offsets([member - first for (member,) in rows]) if rows else nobody()

    def _since(self) -> int:
        return to_ms(self._clock.now() - KEPT)


def _row(word: DeviceWord) -> tuple[object, ...]:
    at, _, member = word.rank
    return word.id, str(word.platform), member, to_ms(at), pack_told(word) if isinstance(word, Device) else None


def _devices(rows: Iterable[tuple[int, bytes, int]]) -> Iterator[Device]:
    return (unpack_told(Member(member), packed, at) for member, packed, at in rows)
