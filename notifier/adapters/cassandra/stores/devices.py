"""Stores the ownership rows of each device, and each member's devices.

If two members register a device concurrently, each writer stores an ownership row and then reads all rows of the
device. The writer that reads last sees both rows, and removes the device from the member that loses it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import seconds_until
from notifier.codec.devices_send_log_suppressions import pack_registration, unpack_registration
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.bitmap import (
    SHARD_BLOCKS,
    SHARD_MEMBERS,
    Bits,
    block_of,
    contains,
    from_offsets,
    member_spans,
    no_members,
)
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.ports.leases_queues_throttles_clock import Clock

UPDATES_PER_BATCH = 512
"""Device updates that are written together: about 200 KB of rows in all."""
BLOCKS_PER_READ = 8
"""Member blocks whose devices are read together: about 3 MB in all."""
MEMBERS_PER_QUERY = 100

_MICROSECONDS_PER_MS = 1_000
_PLATFORMS = [str(platform) for platform in Platform]

_INSERT_OWNERSHIP = (
    "INSERT INTO device_owners (device, member, platform, is_removed) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
)
_SELECT_OWNERSHIPS = """
    SELECT device, member, platform, is_removed, WRITETIME(is_removed) AS written_at FROM device_owners
    WHERE device = ?
"""
_DELETE_OWNERSHIP = "DELETE FROM device_owners USING TIMESTAMP ? WHERE device = ? AND member = ?"
_PUT_DEVICE = """
    INSERT INTO devices (block, platform, member, device, registration) VALUES (?, ?, ?, ?, ?)
    USING TIMESTAMP ? AND TTL ?
"""
_DELETE_DEVICE = "DELETE FROM devices USING TIMESTAMP ? WHERE block = ? AND platform = ? AND member = ? AND device = ?"
_SELECT_DEVICES = "SELECT member, registration, WRITETIME(registration) AS written_at FROM devices"
_SELECT_OF_MEMBERS = f"{_SELECT_DEVICES} WHERE block = ? AND platform IN ? AND member IN ?"
_SELECT_OF_MEMBER_RANGE = f"{_SELECT_DEVICES} WHERE block = ? AND platform = ? AND member >= ? AND member <= ?"
_SELECT_MEMBERS = "SELECT member FROM devices WHERE block = ?"


class CassandraDevices:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        for batch in batches((update for update in updates if self._ttl(update) > 0), UPDATES_PER_BATCH):
            self._apply(batch)

    def _apply(self, updates: Sequence[DeviceUpdate]) -> None:
        # Write our ownership rows before reading all ownership rows of the devices: of concurrent writers, the one that
        # reads last sees all rows. Write timestamps follow the rank of the update, so the order of arrival doesn't
        # matter. After a crash the record is still in the log, and its consumer repeats everything.
        self._cluster.query_each(_INSERT_OWNERSHIP, [self._ownership_row(update) for update in updates])
        ownerships = self._read_ownerships({update.id for update in updates})
        current = {id: max(rows, key=_rank) for id, rows in ownerships.items() if rows}
        self._cluster.query_each(_DELETE_DEVICE, _device_deletions(updates, ownerships, current))
        self._cluster.query_all(
            [
                (_PUT_DEVICE, self._device_row(update))
                for update in updates
                if isinstance(update, Device) and _is_current(update, current)
            ]
        )
        # Delete the ownership rows of the members that lost a device. While such a row exists, each later update of the
        # device deletes the member's device row again.
        self._cluster.query_each(_DELETE_OWNERSHIP, _ownership_deletions(ownerships, current))

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        return {id: max(rows, key=_rank) for id, rows in self._read_ownerships(ids).items() if rows}

    def _read_ownerships(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Sequence[DeviceOwnership]]:
        results = self._cluster.query_each(_SELECT_OWNERSHIPS, [(id,) for id in ids])
        return {id: _ownerships(rows) for id, rows in zip(ids, results, strict=True)}

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        devices = defaultdict[Member, list[Device]](list)
        queries = [
            (block, _PLATFORMS, group)
            for block, block_members in _by_block(members).items()
            for group in batches(block_members, MEMBERS_PER_QUERY)
        ]
        for device in _devices(chain(*self._cluster.query_each(_SELECT_OF_MEMBERS, queries))):
            devices[device.member].append(device)
        return {member: sorted(group, key=lambda item: (item.platform, item.id)) for member, group in devices.items()}

    def iter_devices(self, platform: Platform, shard: int, members: Bits) -> Iterator[Device]:
        for batch in batches(member_spans(members, shard), BLOCKS_PER_READ):
            queries = [(block_of(first), str(platform), first, last) for first, last in batch]
            for rows in self._cluster.query_each(_SELECT_OF_MEMBER_RANGE, queries):
                yield from _devices(row for row in rows if contains(members, row.member))

    def members_with_device(self, shard: int) -> Bits:
        offsets = set[int]()
        for blocks in batches(range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS), BLOCKS_PER_READ):
            for rows in self._cluster.query_each(_SELECT_MEMBERS, [(block,) for block in blocks]):
                offsets.update(row.member % SHARD_MEMBERS for row in rows)
        return from_offsets(offsets) if offsets else no_members()

    def _ttl(self, update: DeviceUpdate) -> int:
        return seconds_until(update.rank[0] + DEVICE_KEPT_FOR, self._clock.now())

    def _ownership_row(self, update: DeviceUpdate) -> Row:
        _, is_removal, member = update.rank
        return update.id, member, str(update.platform), is_removal, _write_timestamp(update), self._ttl(update)

    def _device_row(self, device: Device) -> Row:
        key = block_of(device.member), str(device.platform), device.member, device.id
        return *key, pack_registration(device), _write_timestamp(device), self._ttl(device)


def _device_deletions(
    updates: Iterable[DeviceUpdate],
    ownerships: Mapping[DeviceId, Collection[DeviceOwnership]],
    current: Mapping[DeviceId, DeviceOwnership],
) -> Iterator[Row]:
    """Yield the parameters of _DELETE_DEVICE for the members that registered or removed a device and don't own it."""
    platforms = {(update.id, update.member): update.platform for update in updates}
    platforms |= {(id, ownership.member): ownership.platform for id, rows in ownerships.items() for ownership in rows}
    for (id, member), platform in platforms.items():
        owner = current.get(id)
        if owner and (owner.is_removed or owner.member != member):
            yield _deletion_timestamp(owner, member), block_of(member), str(platform), member, id


def _ownership_deletions(
    ownerships: Mapping[DeviceId, Collection[DeviceOwnership]], current: Mapping[DeviceId, DeviceOwnership]
) -> Iterator[Row]:
    for id, rows in ownerships.items():
        for ownership in rows:
            if ownership.member != current[id].member:
                yield _write_timestamp(ownership), id, ownership.member


def _is_current(update: DeviceUpdate, current: Mapping[DeviceId, DeviceOwnership]) -> bool:
    return update.id in current and update.rank == current[update.id].rank


def _ownerships(rows: Iterable[Any]) -> Sequence[DeviceOwnership]:
    return [
        DeviceOwnership(
            member=Member(row.member),
            platform=Platform(row.platform),
            at=from_ms(row.written_at // _MICROSECONDS_PER_MS),
            is_removed=row.is_removed,
        )
        for row in rows
    ]


def _rank(ownership: DeviceOwnership) -> Any:
    return ownership.rank


def _write_timestamp(ranked: DeviceUpdate | DeviceOwnership) -> int:
    at, is_removal, _ = ranked.rank
    return to_ms(at) * _MICROSECONDS_PER_MS + is_removal


def _deletion_timestamp(owner: DeviceOwnership, member: Member) -> int:
    """Return the write timestamp of the deletion of a member's device row.

    The deletion must hide each row that ranks below the owner's update, and none that ranks above it. Of two updates
    with the same time, a removal ranks above a registration. Of two removals or two registrations, the one with the
    higher member number ranks above.
    """
    timestamp = to_ms(owner.at) * _MICROSECONDS_PER_MS
    return timestamp + 1 if owner.is_removed else timestamp - (member > owner.member)


def _by_block(members: Iterable[Member]) -> Mapping[int, Sequence[Member]]:
    blocks = defaultdict[int, list[Member]](list)
    for member in sorted(set(members)):
        blocks[block_of(member)].append(member)
    return blocks


def _devices(rows: Iterable[Any]) -> Iterator[Device]:
    return (
        unpack_registration(Member(row.member), row.registration, row.written_at // _MICROSECONDS_PER_MS)
        for row in rows
    )
