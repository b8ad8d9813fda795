"""Ports of viewer facts, with each write wrapped in an invalidation."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.follows import BlockFollows, BlockKey, Follow
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences, AccountPreferencesChange
from notifier.domain.users.subject_preferences import MemberBlockMutes, PreferenceChange, SubjectPreference
from notifier.domain.users.user_blocks import UserBlock
from notifier.domain.users.visibility import Mark, Viewer
from notifier.flow.inbox.viewer_facts_invalidation_and_check import AsyncInvalidation, Invalidation
from notifier.ports.all_ports import Ports
from notifier.ports.audience import Follows, SubjectAndMember
from notifier.ports.inbox_cache_freshness import ALL_MEMBERS, scopes_of
from notifier.ports.user_directory_and_account_flags import Directory, DirectoryEntry
from notifier.ports.viewers_preferences_user_blocks import (
    AccountPreferencesStore,
    InboxContext,
    People,
    Preferences,
    SubjectPreferences,
    UserBlocks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedFollows:
    follows: Follows
    invalidation: Invalidation

    def write(self, follows: Collection[Follow]) -> None:
        with self.invalidation.changing(scopes_of({follow.member for follow in follows})):
            self.follows.write(follows)

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        with self.invalidation.changing([ALL_MEMBERS]) as change:
            self.follows.write_blocks(change.with_renewals(follows))

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        with self.invalidation.changing([ALL_MEMBERS]):
            return self.follows.insert_blocks(follows)

    def read_current(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, bool]:
        return self.follows.read_current(pairs)

    def followers(self, subject: Subject, shard: int) -> Bits:
        return self.follows.followers(subject, shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedSubjectPreferences:
    subject_preferences: SubjectPreferences
    invalidation: Invalidation

    def write(self, changes: Collection[PreferenceChange]) -> None:
        with self.invalidation.changing(scopes_of({change.member for change in changes})):
            self.subject_preferences.write(changes)

    def write_mutes(self, mutes: Iterable[MemberBlockMutes]) -> None:
        with self.invalidation.changing([ALL_MEMBERS]) as change:
            self.subject_preferences.write_mutes(change.with_renewals(mutes))

    def read_own(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, SubjectPreference]:
        return self.subject_preferences.read_own(pairs)

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        return self.subject_preferences.member_sets(subject, shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedAccountPreferences:
    account_preferences: AccountPreferencesStore
    invalidation: Invalidation

    def write(self, changes: Collection[AccountPreferencesChange]) -> None:
        with self.invalidation.changing(scopes_of({change.member for change in changes})):
            self.account_preferences.write(changes)

    def read_current(self, members: Collection[Member]) -> Mapping[Member, AccountPreferences]:
        return self.account_preferences.read_current(members)

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return self.account_preferences.member_sets(shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedUserBlocks:
    user_blocks: UserBlocks
    invalidation: Invalidation

    def write(self, blocks: Collection[UserBlock]) -> None:
        members = {side.member for block in blocks for side in block.sides}
        with self.invalidation.changing(scopes_of(members)):
            self.user_blocks.write(blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedDirectory:
    """Only deletions invalidate caches. New accounts do not: no cache stores that an account is missing."""

    directory: Directory
    invalidation: Invalidation

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        with self.invalidation.changing(scopes_of({account.member for account in accounts if account.deleted})):
            self.directory.enrol(accounts)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        return self.directory.accounts(users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        return self.directory.users(members)

    def assign_numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        return self.directory.assign_numbers(users)

    def lease(self, count: int) -> Member:
        return self.directory.lease(count)

    def next_number(self) -> Member:
        return self.directory.next_number()

    def enrol_range(self, ids: IdRange) -> None:
        self.directory.enrol_range(ids)

    def id_range_of(self, user: UserId) -> IdRange | None:
        return self.directory.id_range_of(user)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPeople:
    people: People
    invalidation: AsyncInvalidation

    async def member(self, user: UserId) -> Member | None:
        return await self.people.member(user)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self.people.viewer(user, member)

    async def cached_member(self, user: UserId) -> Member | None:
        return await self.people.cached_member(user)

    async def open(self, user: UserId, cached_member: Member | None = None) -> InboxContext | None:
        return await self.people.open(user, cached_member)

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        async with self.invalidation.changing(scopes_of([member])):
            await self.people.mark_seen(member, seen_at, newer)

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        async with self.invalidation.changing(scopes_of([member])):
            await self.people.mark(member, bursts, mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPreferences:
    preferences: Preferences
    invalidation: AsyncInvalidation

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        return await self.preferences.read(member)

    async def write(self, change: PreferenceChange) -> None:
        async with self.invalidation.changing(scopes_of([change.member])):
            await self.preferences.write(change)

    async def read_account(self, member: Member) -> AccountPreferences:
        return await self.preferences.read_account(member)

    async def write_account(self, change: AccountPreferencesChange) -> None:
        async with self.invalidation.changing(scopes_of([change.member])):
            await self.preferences.write_account(change)


def versioned(ports: Ports) -> Ports:
    """Return the ports with each blocking write of viewers' facts wrapped in an invalidation."""
    invalidation = Invalidation(versions=ports.versions, lapses=ports.viewer_lapses, nonces=ports.nonces)
    return replace(
        ports,
        follows=VersionedFollows(follows=ports.follows, invalidation=invalidation),
        subject_preferences=VersionedSubjectPreferences(
            subject_preferences=ports.subject_preferences, invalidation=invalidation
        ),
        account_preferences=VersionedAccountPreferences(
            account_preferences=ports.account_preferences, invalidation=invalidation
        ),
        user_blocks=VersionedUserBlocks(user_blocks=ports.user_blocks, invalidation=invalidation),
        directory=VersionedDirectory(directory=ports.directory, invalidation=invalidation),
    )
