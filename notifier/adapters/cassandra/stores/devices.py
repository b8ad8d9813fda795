"""Stores devices: the holder of each device, and the devices of each member.

Of concurrent registrations of one device, at least one sees the other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.cassandra.driver.batching import Row, batches
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.codec.push import pack_registration, unpack_registration
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import (
    SHARD_BLOCKS,
    SHARD_MEMBERS,
    Bits,
    block_of,
    contains,
    from_offsets,
    no_members,
    spans,
)
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceId, DeviceOwnership, DeviceUpdate
from notifier.ports.coordination import Clock

UPDATES_AT_ONCE = 512
"""Device changes that are settled together: about 200 KB of rows."""
BLOCKS = 8
"""Blocks whose devices are in memory at a time: 3 MB as the node sends them."""
IDS_AT_ONCE = 100
"""Members of a partition per query. A node warns about many more."""

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timestamps in microseconds."""
_PLATFORMS = [str(platform) for platform in Platform]

_CLAIM = (
    "INSERT INTO device_owners (device, member, platform, is_removed) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
)
_CLAIMS = """
    SELECT device, member, platform, is_removed, WRITETIME(is_removed) AS written_at FROM device_owners
    WHERE device = ?
"""
_DELETE_CLAIM = "DELETE FROM device_owners USING TIMESTAMP ? WHERE device = ? AND member = ?"
_PUT_DEVICE = """
    INSERT INTO devices (block, platform, member, device, registration) VALUES (?, ?, ?, ?, ?)
    USING TIMESTAMP ? AND TTL ?
"""
_DELETE_DEVICE = "DELETE FROM devices USING TIMESTAMP ? WHERE block = ? AND platform = ? AND member = ? AND device = ?"
_REGISTRATIONS = "SELECT member, registration, WRITETIME(registration) AS written_at FROM devices"
_OF_SOME = f"{_REGISTRATIONS} WHERE block = ? AND platform IN ? AND member IN ?"
_OF_RANGE = f"{_REGISTRATIONS} WHERE block = ? AND platform = ? AND member >= ? AND member <= ?"
_PEOPLE = "SELECT member FROM devices WHERE block = ?"


class CassandraDevices:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def write(self, updates: Collection[DeviceUpdate]) -> None:
        for batch in batches((change for change in updates if self._ttl(change) > 0), UPDATES_AT_ONCE):
            self._resolve(batch)

    def _resolve(self, updates: Sequence[DeviceUpdate]) -> None:
        # All writers write their claims first, and then read the claims of the others. The last reader sees all claims,
        # and removes the device from the losers. The rank is the write timestamp, so the order of the writes doesn't
        # matter. After a crash the record is still in the log, and its consumer repeats everything.
        self._cluster.query_each(_CLAIM, [self._claim(change) for change in updates])
        claims = self._claims({change.id for change in updates})
        current = {id: max(holdings, key=_rank) for id, holdings in claims.items() if holdings}
        # Remove the losers' rows before the winner's row is written.
        self._cluster.query_all([(_DELETE_DEVICE, row) for row in _removed_rows(updates, claims, current)])
        self._cluster.query_all(
            [
                (_PUT_DEVICE, self._device_row(change))
                for change in updates
                if isinstance(change, Device) and _is_current(change, current)
            ]
        )
        # A losing claim is deleted once its row is removed. Otherwise each former holder of a device would be removed
        # again whenever the device is registered.
        self._cluster.query_all([(_DELETE_CLAIM, row) for row in _superseded_rows(claims, current)])

    def read_current(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, DeviceOwnership]:
        return {id: max(holdings, key=_rank) for id, holdings in self._claims(ids).items() if holdings}

    def _claims(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Sequence[DeviceOwnership]]:
        answers = zip(ids, self._cluster.query_each(_CLAIMS, [(id,) for id in ids]), strict=True)
        return {id: _holdings(rows) for id, rows in answers}

    def by_member(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        devices = defaultdict[Member, list[Device]](list)
        queries = [
            (block, _PLATFORMS, group)
            for block, named in _by_block(members).items()
            for group in batches(named, IDS_AT_ONCE)
        ]
        for device in _devices(chain(*self._cluster.query_each(_OF_SOME, queries))):
            devices[device.member].append(device)
        return {member: sorted(group, key=lambda item: (item.platform, item.id)) for member, group in devices.items()}

    def iter_devices(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        for batch in batches(spans(people, shard), BLOCKS):
            queries = [(block_of(first), str(platform), first, last) for first, last in batch]
            for rows in self._cluster.query_each(_OF_RANGE, queries):
                yield from _devices(row for row in rows if contains(people, row.member))

    def members_with_device(self, shard: int) -> Bits:
        places = set[int]()
        for blocks in batches(range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS), BLOCKS):
            for rows in self._cluster.query_each(_PEOPLE, [(block,) for block in blocks]):
                places.update(row.member % SHARD_MEMBERS for row in rows)
        return from_offsets(places) if places else no_members()

    def _ttl(self, update: DeviceUpdate) -> int:
        return seconds_until(update.rank[0] + DEVICE_KEPT_FOR, self._clock.now())

    def _claim(self, update: DeviceUpdate) -> Row:
        _, is_removal, member = update.rank
        return update.id, member, str(update.platform), is_removal, _timestamp(update), self._ttl(update)

    def _device_row(self, device: Device) -> Row:
        place = block_of(device.member), str(device.platform), device.member, device.id
        return *place, pack_registration(device), _timestamp(device), self._ttl(device)


def _removed_rows(
    updates: Iterable[DeviceUpdate],
    claims: Mapping[DeviceId, Collection[DeviceOwnership]],
    current: Mapping[DeviceId, DeviceOwnership],
) -> Iterator[Row]:
    """Yield deletions for members that claim or claimed a device but don't hold it."""
    claimed = {(update.id, update.member): update.platform for update in updates}
    claimed |= {(id, claim.member): claim.platform for id, holdings in claims.items() for claim in holdings}
    for (id, member), platform in claimed.items():
        if (holder := current.get(id)) and (holder.is_removed or holder.member != member):
            yield _deletion_timestamp(holder, member), block_of(member), str(platform), member, id


def _superseded_rows(
    claims: Mapping[DeviceId, Collection[DeviceOwnership]], current: Mapping[DeviceId, DeviceOwnership]
) -> Iterator[Row]:
    for id, holdings in claims.items():
        for claim in holdings:
            if claim.member != current[id].member:
                yield _timestamp(claim), id, claim.member


def _is_current(update: DeviceUpdate, current: Mapping[DeviceId, DeviceOwnership]) -> bool:
    """Return whether the change is current. Of two changes by one member only the later is."""
    return update.id in current and update.rank == current[update.id].rank


def _holdings(rows: Iterable[Any]) -> Sequence[DeviceOwnership]:
    return [
        DeviceOwnership(
            member=Member(row.member),
            platform=Platform(row.platform),
            at=from_ms(row.written_at // _MICROSECONDS),
            is_removed=row.is_removed,
        )
        for row in rows
    ]


def _rank(holding: DeviceOwnership) -> Any:
    return holding.rank


def _timestamp(ranked: DeviceUpdate | DeviceOwnership) -> int:
    at, is_removal, _ = ranked.rank
    return to_ms(at) * _MICROSECONDS + is_removal


def _deletion_timestamp(holder: DeviceOwnership, member: Member) -> int:
    """Return the write timestamp of a deletion.

    It covers everything that the member wrote before, and nothing that ranks higher. Of two registrations at one moment
    the member with the higher number holds the device.
    """
    timestamp = to_ms(holder.at) * _MICROSECONDS
    return timestamp + 1 if holder.is_removed else timestamp - (member > holder.member)


def _by_block(members: Iterable[Member]) -> Mapping[int, Sequence[Member]]:
    blocks = defaultdict[int, list[Member]](list)
    for member in sorted(set(members)):
        blocks[block_of(member)].append(member)
    return blocks


def _devices(rows: Iterable[Any]) -> Iterator[Device]:
    return (unpack_registration(Member(row.member), row.registration, row.written_at // _MICROSECONDS) for row in rows)
