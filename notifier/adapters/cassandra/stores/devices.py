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
from notifier.codec.push import pack_told, unpack_told
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.audience.bitmap import (
    SHARD_BLOCKS,
    SHARD_MEMBERS,
    Bits,
    block_of,
    from_offsets,
    holds,
    nobody,
    spans,
)
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import KEPT, Device, DeviceId, DeviceWord, Holding
from notifier.ports.coordination import Clock

WORDS = 512
"""Device changes that are settled together: about 200 KB of rows."""
BLOCKS = 8
"""Blocks whose devices are in memory at a time: 3 MB as the node sends them."""
NAMES = 100
"""Members of a partition per query. A node warns about many more."""

_MICROSECONDS = 1_000
"""Microseconds per millisecond. Cassandra counts write timestamps in microseconds."""
_PLATFORMS = [str(platform) for platform in Platform]

_CLAIM = "INSERT INTO device_holders (device, member, platform, gone) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
_CLAIMS = "SELECT device, member, platform, gone, WRITETIME(gone) AS stamp FROM device_holders WHERE device = ?"
_YIELD = "DELETE FROM device_holders USING TIMESTAMP ? WHERE device = ? AND member = ?"
_GIVE = "INSERT INTO devices (block, platform, member, device, told) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
_TAKE = "DELETE FROM devices USING TIMESTAMP ? WHERE block = ? AND platform = ? AND member = ? AND device = ?"
_TOLD = "SELECT member, told, WRITETIME(told) AS stamp FROM devices"
_OF_SOME = f"{_TOLD} WHERE block = ? AND platform IN ? AND member IN ?"
_OF_RANGE = f"{_TOLD} WHERE block = ? AND platform = ? AND member >= ? AND member <= ?"
_PEOPLE = "SELECT member FROM devices WHERE block = ?"


class CassandraDevices:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def write(self, words: Collection[DeviceWord]) -> None:
        for batch in batches((change for change in words if self._seconds(change) > 0), WORDS):
            self._settle(batch)

    def _settle(self, words: Sequence[DeviceWord]) -> None:
        # All writers write their claims first, and then read the claims of the others. The last reader sees all claims,
        # and removes the device from the losers. The rank is the write timestamp, so the order of the writes doesn't
        # matter. After a crash the record is still in the log, and its consumer repeats everything.
        self._cluster.ask_each(_CLAIM, [self._claim(change) for change in words])
        claims = self._claims({change.id for change in words})
        current = {id: max(holdings, key=_rank) for id, holdings in claims.items() if holdings}
        # Remove the losers' rows before the winner's row is written.
        self._cluster.ask_all([(_TAKE, row) for row in _taken(words, claims, current)])
        self._cluster.ask_all(
            [(_GIVE, self._given(change)) for change in words if isinstance(change, Device) and _wins(change, current)]
        )
        # A losing claim is deleted once its row is removed. Otherwise each former holder of a device would be removed
        # again whenever the device is registered.
        self._cluster.ask_all([(_YIELD, row) for row in _lost(claims, current)])

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        return {id: max(holdings, key=_rank) for id, holdings in self._claims(ids).items() if holdings}

    def _claims(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Sequence[Holding]]:
        answers = zip(ids, self._cluster.ask_each(_CLAIMS, [(id,) for id in ids]), strict=True)
        return {id: _holdings(rows) for id, rows in answers}

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        devices = defaultdict[Member, list[Device]](list)
        questions = [
            (block, _PLATFORMS, group) for block, named in _by_block(members).items() for group in batches(named, NAMES)
        ]
        for device in _devices(chain(*self._cluster.ask_each(_OF_SOME, questions))):
            devices[device.member].append(device)
        return {member: sorted(group, key=lambda item: (item.platform, item.id)) for member, group in devices.items()}

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        for batch in batches(spans(people, shard), BLOCKS):
            questions = [(block_of(first), str(platform), first, last) for first, last in batch]
            for rows in self._cluster.ask_each(_OF_RANGE, questions):
                yield from _devices(row for row in rows if holds(people, row.member))

    def people(self, shard: int) -> Bits:
        places = set[int]()
        for blocks in batches(range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS), BLOCKS):
            for rows in self._cluster.ask_each(_PEOPLE, [(block,) for block in blocks]):
                places.update(row.member % SHARD_MEMBERS for row in rows)
        return from_offsets(places) if places else nobody()

    def _seconds(self, word: DeviceWord) -> int:
        return seconds_until(word.rank[0] + KEPT, self._clock.now())

    def _claim(self, word: DeviceWord) -> Row:
        _, is_gone, member = word.rank
        return word.id, member, str(word.platform), is_gone, _stamp(word), self._seconds(word)

    def _given(self, device: Device) -> Row:
        place = block_of(device.member), str(device.platform), device.member, device.id
        return *place, pack_told(device), _stamp(device), self._seconds(device)


def _taken(
    words: Iterable[DeviceWord],
    claims: Mapping[DeviceId, Collection[Holding]],
    standing: Mapping[DeviceId, Holding],
) -> Iterator[Row]:
    """Yield deletions for members that claim or claimed a device but don't hold it."""
    claimed = {(word.id, word.member): word.platform for word in words}
    claimed |= {(id, claim.member): claim.platform for id, holdings in claims.items() for claim in holdings}
    for (id, member), platform in claimed.items():
        if (holder := standing.get(id)) and (holder.gone or holder.member != member):
            yield _behind(holder, member), block_of(member), str(platform), member, id


def _lost(claims: Mapping[DeviceId, Collection[Holding]], standing: Mapping[DeviceId, Holding]) -> Iterator[Row]:
    for id, holdings in claims.items():
        for claim in holdings:
            if claim.member != standing[id].member:
                yield _stamp(claim), id, claim.member


def _wins(word: DeviceWord, standing: Mapping[DeviceId, Holding]) -> bool:
    """Return whether the change is current. Of two changes by one member only the later is."""
    return word.id in standing and word.rank == standing[word.id].rank


def _holdings(rows: Iterable[Any]) -> Sequence[Holding]:
    return [
        Holding(
            member=Member(row.member),
            platform=Platform(row.platform),
            at=from_ms(row.stamp // _MICROSECONDS),
            gone=row.gone,
        )
        for row in rows
    ]


def _rank(holding: Holding) -> Any:
    return holding.rank


def _stamp(word: DeviceWord | Holding) -> int:
    at, is_gone, _ = word.rank
    return to_ms(at) * _MICROSECONDS + is_gone


def _behind(holder: Holding, member: Member) -> int:
    """Return the write timestamp of a deletion.

    It covers everything that the member wrote before, and nothing that ranks higher. Of two registrations at one moment
    the member with the higher number holds the device.
    """
    stamp = to_ms(holder.at) * _MICROSECONDS
    return stamp + 1 if holder.gone else stamp - (member > holder.member)


def _by_block(members: Iterable[Member]) -> Mapping[int, Sequence[Member]]:
    blocks = defaultdict[int, list[Member]](list)
    for member in sorted(set(members)):
        blocks[block_of(member)].append(member)
    return blocks


def _devices(rows: Iterable[Any]) -> Iterator[Device]:
    return (unpack_told(Member(row.member), row.told, row.stamp // _MICROSECONDS) for row in rows)
