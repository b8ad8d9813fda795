"""Devices in memory: of each what ranks highest of all that was said."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import attrgetter

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, holds, nobody, shard_of
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import KEPT, Device, DeviceId, DeviceWord, Holding
from notifier.ports.coordination import Clock


@dataclass(slots=True)
class MemoryDevices:
    clock: Clock
    kept: dict[DeviceId, DeviceWord] = field(default_factory=dict)
    _had: dict[Member, set[DeviceId]] = field(default_factory=lambda: defaultdict(set))
    """All that were each member's since they were looked through last: of ten thousand few are left."""

    def write(self, words: Collection[DeviceWord]) -> None:
        for word in words:
            self.kept[word.id] = max(self.kept.get(word.id, word), word, key=attrgetter("rank"))
            self._had[word.member].add(word.id)

    def standing(self, ids: Collection[DeviceId]) -> Mapping[DeviceId, Holding]:
        known = {id: self.kept[id] for id in ids if id in self.kept}
        return {id: _holding(word) for id, word in known.items() if word.rank[0] > self._since()}

    def of(self, members: Collection[Member]) -> Mapping[Member, Sequence[Device]]:
        found = {member: self._held(self._had[member], member) for member in members if member in self._had}
        for member, devices in found.items():
            self._had[member] = {device.id for device in devices}
        return {member: devices for member, devices in found.items() if devices}

    def reached(self, platform: Platform, shard: int, people: Bits) -> Iterator[Device]:
        named = (one for one in self._of_shard(shard) if one.platform is platform and holds(people, one.member))
        return iter(sorted(named, key=lambda one: (one.member, one.id)))

    def people(self, shard: int) -> Bits:
        places = {one.member % SHARD_MEMBERS for one in self._of_shard(shard)}
        return from_offsets(places) if places else nobody()

    def _of_shard(self, shard: int) -> Iterator[Device]:
        members = [member for member in self._had if shard_of(member) == shard]
        return chain.from_iterable(self.of(members).values())

    def _held(self, ids: Collection[DeviceId], member: Member) -> Sequence[Device]:
        words = [self.kept[id] for id in ids if id in self.kept]
        own = [word for word in words if isinstance(word, Device) and word.member == member]
        return sorted((one for one in own if one.registered_at > self._since()), key=lambda one: (one.platform, one.id))

    def _since(self) -> datetime:
        return self.clock.now() - KEPT


def _holding(word: DeviceWord) -> Holding:
    at, is_gone, member = word.rank
    return Holding(member=member, platform=word.platform, at=at, gone=is_gone)
