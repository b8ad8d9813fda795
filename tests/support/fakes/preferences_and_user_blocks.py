"""In-memory user blocks and preferences; MemoryPeople shows the current ones."""

from collections.abc import Collection, Iterable, Mapping

from notifier.domain.audience.bitmap import SHARD_BLOCKS, Bits, shard_of
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    AccountPreferences,
    AccountPreferencesChange,
    account_preference_sets,
)
from notifier.domain.users.subject_preferences import (
    MemberBlockMutes,
    PreferenceChange,
    SubjectPreference,
    preference_sets,
)
from notifier.domain.users.user_blocks import UserBlock
from notifier.ports.viewers_preferences_user_blocks import SubjectAndMember
from tests.support.fakes.viewer_facts import MemoryPeople


class MemoryUserBlocks:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._current: dict[tuple[UserId, UserId], UserBlock] = {}

    def write(self, blocks: Collection[UserBlock]) -> None:
        for block in blocks:
            pair = block.blocker, block.blocked
            current = self._current.get(pair)
            if current is None or (block.sequence, block.until) > (current.sequence, current.until):
                self._current[pair] = block
                self._people.apply_block(block)


# Preferences for subjects and account-wide.


class MemorySubjectPreferences:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people

    def write(self, changes: Collection[PreferenceChange]) -> None:
        for change in changes:
            self._people.apply_change(change)

    def write_mutes(self, mutes: Iterable[MemberBlockMutes]) -> None:
        self._people.mutes |= {(mute.block, mute.subject): mute for mute in mutes}

    def read_own(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, SubjectPreference]:
        own = {(subject, member): self._people.own_preferences(member).get(subject) for subject, member in pairs}
        return {pair: preference for pair, preference in own.items() if preference is not None}

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        own_by_member = [
            self._people.own_preferences(member) for member in self._people.subject_changes if shard_of(member) == shard
        ]
        mutes = [
            mute
            for (block, muted), mute in self._people.mutes.items()
            if muted == subject and block // SHARD_BLOCKS == shard
        ]
        return preference_sets(
            [own_preferences[subject] for own_preferences in own_by_member if subject in own_preferences], mutes
        )


class MemoryAccountPreferences:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people

    def write(self, changes: Collection[AccountPreferencesChange]) -> None:
        for change in changes:
            self._people.apply_account_change(change)

    def read_current(self, members: Collection[Member]) -> Mapping[Member, AccountPreferences]:
        return {m: self._people.account_preferences(m) for m in members if self._people.account_changes.get(m)}

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return account_preference_sets(
            self.read_current([m for m in self._people.account_changes if shard_of(m) == shard])
        )


class MemoryPreferences:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._subject_preferences = MemorySubjectPreferences(people)

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        return self._people.subject_preferences(member)

    async def write(self, change: PreferenceChange) -> None:
        self._subject_preferences.write([change])

    async def read_account(self, member: Member) -> AccountPreferences:
        return self._people.account_preferences(member)

    async def write_account(self, change: AccountPreferencesChange) -> None:
        self._people.apply_account_change(change)
