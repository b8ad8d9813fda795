"""Follows in memory: the own words are those that MemoryPeople shows."""

from collections.abc import Collection, Iterable, Mapping

from notifier.domain.audience.bitmap import (
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_MEMBERS,
    Bits,
    block_of,
    from_offsets,
    shard_of,
)
from notifier.domain.audience.follows import LEFT, BlockFollows, Follow, Place
from notifier.domain.ids import Member, Subject
from notifier.ports.audience import Pair
from notifier.testing.memory.people import MemoryPeople


class MemoryFollows:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._standing: dict[Pair, Follow] = {}

    def write(self, follows: Collection[Follow]) -> None:
        for word in follows:
            pair = word.subject, word.member
            before = self._standing.get(pair)
            if before is None or (word.sequence, word.visible_from) > (before.sequence, before.visible_from):
                self._standing[pair] = word
                self._people.own[word.member][word.subject] = word.visible_from

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        self._people.blocks |= {follow.place: follow for follow in follows}

    def settle_blocks(self, follows: Collection[BlockFollows]) -> Mapping[Place, BlockFollows]:
        places = {follow.place for follow in follows} & self._people.blocks.keys()
        stood = {place: self._people.blocks[place] for place in places}
        self.write_blocks(follow for follow in follows if follow.place not in stood)
        return stood

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        return {pair: self._follows(*pair) for pair in pairs}

    def followers(self, subject: Subject, shard: int) -> Bits:
        named = {member for member, own in self._people.own.items() if subject in own and shard_of(member) == shard}
        blocks = range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS)
        shared = {block for of, block in self._people.blocks if of == subject and block in blocks}
        named |= {Member(block * BLOCK_MEMBERS + slot) for block in shared for slot in range(BLOCK_MEMBERS)}
        return from_offsets([member % SHARD_MEMBERS for member in named if self._follows(subject, member)])

    def _follows(self, subject: Subject, member: Member) -> bool:
        if (since := self._people.own.get(member, {}).get(subject)) is not None:
            return since < LEFT
        shared, slot = self._people.blocks.get((subject, block_of(member))), member % BLOCK_MEMBERS
        return shared is not None and bool(shared.members[slot // 8] >> slot % 8 & 1)
