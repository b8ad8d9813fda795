"""Devices: whose each is, and what each member has; of two who take one at once at least one sees the other."""

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
"""That are settled together: some 200 KB of rows."""
BLOCKS = 8
"""Whose devices are in memory at a time: 3 MB as the node sends them."""
NAMES = 100
"""Members that are asked for in one question, of a partition: a node warns of many more."""

_MICROSECONDS = 1_000
"""In a millisecond: what Cassandra counts write timestamps in."""
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
        for some in batches((word for word in words if self._seconds(word) > 0), WORDS):
            self._settle(some)

    def _settle(self, words: Sequence[DeviceWord]) -> None:
        # Everybody says first what he says, and then looks who else did: whoever looks last sees all, and takes the
        # device from whom it isn't. By the ranks as timestamps that comes through whatever order it is in. Who dies in
        # between, or is cut off, has his record in the log, and its reader does all of it again.
        self._cluster.ask_each(_CLAIM, [self._claim(word) for word in words])
        claims = self._claims({word.id for word in words})
        standing = {id: max(some, key=_rank) for id, some in claims.items() if some}
        # Before anybody has it the others don't.
        self._cluster.ask_all([(_TAKE, row) for row in _taken(words, claims, standing)])
        self._cluster.ask_all(
            [(_GIVE, self._given(word)) for word in words if isinstance(word, Device) and _wins(word, standing)]
        )
        # A claim that has lost is needed no longer once its row is away. Were it to stay, each of the many who had
        # somebody's device once would be taken it from whenever that is registered again.
        self._cluster.ask_all([(_YIELD, row) for row in _lost(claims, standing)])

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        return {id: max(some, key=_rank) for id, some in self._claims(ids).items() if some}

    def _claims(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Sequence[Holding]]:
        answers = zip(ids, self._cluster.ask_each(_CLAIMS, [(id,) for id in ids]), strict=True)
        return {id: _holdings(rows) for id, rows in answers}

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        found = defaultdict[Member, list[Device]](list)
        questions = [
            (block, _PLATFORMS, some) for block, named in _by_block(members).items() for some in batches(named, NAMES)
        ]
        for device in _devices(chain(*self._cluster.ask_each(_OF_SOME, questions))):
            found[device.member].append(device)
        return {member: sorted(some, key=lambda one: (one.platform, one.id)) for member, some in found.items()}

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        for some in batches(spans(people, shard), BLOCKS):
            questions = [(block_of(first), str(platform), first, last) for first, last in some]
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
    """From whoever says, or said, that it is his, and doesn't hold it."""
    said = {(word.id, word.member): word.platform for word in words}
    said |= {(id, one.member): one.platform for id, some in claims.items() for one in some}
    for (id, member), platform in said.items():
        if (holder := standing.get(id)) and (holder.gone or holder.member != member):
            yield _behind(holder, member), block_of(member), str(platform), member, id


def _lost(claims: Mapping[DeviceId, Collection[Holding]], standing: Mapping[DeviceId, Holding]) -> Iterator[Row]:
    for id, some in claims.items():
        for one in some:
            if one.member != standing[id].member:
                yield _stamp(one), id, one.member


def _wins(word: DeviceWord, standing: Mapping[DeviceId, Holding]) -> bool:
    """Of two words of one member only the later one does."""
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
    """All that the member said of it before, and nothing that ranks higher: of two who register at one moment the one
    with the higher number holds it."""
    stamp = to_ms(holder.at) * _MICROSECONDS
    return stamp + 1 if holder.gone else stamp - (member > holder.member)


def _by_block(members: Iterable[Member]) -> Mapping[int, Sequence[Member]]:
    found = defaultdict[int, list[Member]](list)
    for member in sorted(set(members)):
        found[block_of(member)].append(member)
    return found


def _devices(rows: Iterable[Any]) -> Iterator[Device]:
    return (unpack_told(Member(row.member), row.told, row.stamp // _MICROSECONDS) for row in rows)
