"""Ports that write viewers' facts, with each write wrapped in an invalidation. Reads pass through."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.follows import BlockFollows, Follow, Place
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall, OverallWord
from notifier.domain.users.subject_preferences import BlockMute, Want, Word
from notifier.domain.users.user_blocks import Parting
from notifier.domain.users.visibility import Mark, Viewer
from notifier.flow.inbox.invalidation import AsyncInvalidation, Invalidation
from notifier.ports.all_ports import Ports
from notifier.ports.audience import Follows, Pair
from notifier.ports.directory import Directory, DirectoryEntry
from notifier.ports.inbox_versions import EVERYBODY, scopes_of
from notifier.ports.users import InboxContext, Overalls, Partings, People, Preferences, Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedFollows:
    follows: Follows
    invalidation: Invalidation

    def write(self, follows: Collection[Follow]) -> None:
        with self.invalidation.changing(scopes_of({follow.member for follow in follows})):
            self.follows.write(follows)

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        with self.invalidation.changing([EVERYBODY]) as change:
            self.follows.write_blocks(change.renewed_along(follows))

    def settle_blocks(self, follows: Collection[BlockFollows]) -> Mapping[Place, BlockFollows]:
        with self.invalidation.changing([EVERYBODY]):
            return self.follows.settle_blocks(follows)

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, bool]:
        return self.follows.standing(pairs)

    def followers(self, subject: Subject, shard: int) -> Bits:
        return self.follows.followers(subject, shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedWants:
    wants: Wants
    invalidation: Invalidation

    def write(self, words: Collection[Word]) -> None:
        with self.invalidation.changing(scopes_of({change.member for change in words})):
            self.wants.write(words)

    def write_mutes(self, mutes: Iterable[BlockMute]) -> None:
        with self.invalidation.changing([EVERYBODY]) as change:
            self.wants.write_mutes(change.renewed_along(mutes))

    def standing(self, pairs: Collection[Pair]) -> Mapping[Pair, Want]:
        return self.wants.standing(pairs)

    def sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        return self.wants.sets(subject, shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedOveralls:
    overalls: Overalls
    invalidation: Invalidation

    def write(self, words: Collection[OverallWord]) -> None:
        with self.invalidation.changing(scopes_of({change.member for change in words})):
            self.overalls.write(words)

    def standing(self, members: Collection[Member]) -> Mapping[Member, Overall]:
        return self.overalls.standing(members)

    def sets(self, shard: int) -> Mapping[SetKind, Bits]:
        return self.overalls.sets(shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPartings:
    partings: Partings
    invalidation: Invalidation

    def write(self, partings: Collection[Parting]) -> None:
        members = {half.member for parting in partings for half in parting.halves}
        with self.invalidation.changing(scopes_of(members)):
            self.partings.write(partings)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedDirectory:
    """Only deletions are invalidated: no cache stores that an account does not exist."""

    directory: Directory
    invalidation: Invalidation

    def enrol(self, accounts: Collection[DirectoryEntry]) -> None:
        with self.invalidation.changing(scopes_of({account.member for account in accounts if account.deleted})):
            self.directory.enrol(accounts)

    def accounts(self, users: Collection[UserId]) -> Mapping[UserId, DirectoryEntry]:
        return self.directory.accounts(users)

    def users(self, members: Collection[Member]) -> Mapping[Member, UserId]:
        return self.directory.users(members)

    def number(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        return self.directory.number(users)

    def lease(self, count: int) -> Member:
        return self.directory.lease(count)

    def end(self) -> Member:
        return self.directory.end()

    def enrol_range(self, ids: IdRange) -> None:
        self.directory.enrol_range(ids)

    def range_of(self, user: UserId) -> IdRange | None:
        return self.directory.range_of(user)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPeople:
    people: People
    invalidation: AsyncInvalidation

    async def member(self, user: UserId) -> Member | None:
        return await self.people.member(user)

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return await self.people.viewer(user, member)

    async def expected(self, user: UserId) -> Member | None:
        return await self.people.expected(user)

    async def open(self, user: UserId, expected: Member | None = None) -> InboxContext | None:
        return await self.people.open(user, expected)

    async def see(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        async with self.invalidation.changing(scopes_of([member])):
            await self.people.see(member, seen_at, newer)

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        async with self.invalidation.changing(scopes_of([member])):
            await self.people.mark(member, bursts, mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPreferences:
    preferences: Preferences
    invalidation: AsyncInvalidation

    async def read(self, member: Member) -> Mapping[Subject, Want]:
        return await self.preferences.read(member)

    async def write(self, word: Word) -> None:
        async with self.invalidation.changing(scopes_of([word.member])):
            await self.preferences.write(word)

    async def overall(self, member: Member) -> Overall:
        return await self.preferences.overall(member)

    async def say(self, word: OverallWord) -> None:
        async with self.invalidation.changing(scopes_of([word.member])):
            await self.preferences.say(word)


def versioned(ports: Ports) -> Ports:
    """Return the ports with every write of viewers' facts wrapped in an invalidation, for the read path's caches."""
    invalidation = Invalidation(versions=ports.versions, lapses=ports.viewer_lapses, nonces=ports.nonces)
    return replace(
        ports,
        follows=VersionedFollows(follows=ports.follows, invalidation=invalidation),
        wants=VersionedWants(wants=ports.wants, invalidation=invalidation),
        overalls=VersionedOveralls(overalls=ports.overalls, invalidation=invalidation),
        partings=VersionedPartings(partings=ports.partings, invalidation=invalidation),
        directory=VersionedDirectory(directory=ports.directory, invalidation=invalidation),
    )
