"""In-memory user blocks and preferences; MemoryPeople shows the current ones."""

from collections.abc import Collection, Iterable, Mapping

from notifier.domain.audience.bitmap import SHARD_BLOCKS, Bits, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall, OverallWord, overall_sets
from notifier.domain.users.subject_preferences import BlockMute, Want, Word, wanting
from notifier.domain.users.user_blocks import Parting
from notifier.ports.users import Pair
from tests.support.fakes.people import MemoryPeople


class MemoryPartings:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._current: dict[tuple[UserId, UserId], Parting] = {}

    def write(self, partings: Collection[Parting]) -> None:
        for parting in partings:
            pair = parting.blocker, parting.blocked
            current = self._current.get(pair)
            if current is None or (parting.sequence, parting.until) > (current.sequence, current.until):
                self._current[pair] = parting
                self._people.part(parting)


# Preferences for subjects and account-wide.


class MemoryWants:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people

    def write(self, words: Collection[Word]) -> None:
        for change in words:
            self._people.say(change)

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        self._people.mutes |= {(mute.block, mute.subject): mute for mute in mutes}

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        own = {(subject, member): self._people.own_wants(member).get(subject) for subject, member in pairs}
        return {pair: want for pair, want in own.items() if want is not None}

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        own_by_member = [self._people.own_wants(member) for member in self._people.words if shard_of(member) == shard]
        mutes = [
            mute
            for (block, muted), mute in self._people.mutes.items()
            if muted == subject and block // SHARD_BLOCKS == shard
        ]
        return wanting(
            [own_preferences[subject] for own_preferences in own_by_member if subject in own_preferences], mutes
        )


class MemoryOveralls:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people

    def write(self, words: Collection[OverallWord]) -> None:
        for change in words:
            self._people.say_of_everything(change)

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        return {m: self._people.overall(m) for m in members if self._people.overall_words.get(m)}

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return overall_sets(self.standing([m for m in self._people.overall_words if shard_of(m) == shard]))


class MemoryPreferences:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._wants = MemoryWants(people)

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        return self._people.wants(member)

    async def write(self, word: Word) -> None:
        self._wants.write([word])

    async def overall(self, member: Member) -> Overall:
        return self._people.overall(member)

    async def say(self, word: OverallWord) -> None:
        self._people.say_of_everything(word)
