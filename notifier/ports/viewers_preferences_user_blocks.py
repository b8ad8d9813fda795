"""Ports of each user's durable facts: visibility, user blocks and preferences."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences, AccountPreferencesChange
from notifier.domain.users.subject_preferences import MemberBlockMutes, PreferenceChange, SubjectPreference
from notifier.domain.users.user_blocks import UserBlock
from notifier.domain.users.visibility import Mark, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxContext:
    """A user's member number and viewer facts."""

    member: Member
    viewer: Viewer
    is_vip: bool
    """Whether the user is a VIP. VIPs open their inboxes often and are few, so other processes may reuse the facts."""


class People(Protocol):
    """Users as the read path sees them. Asynchronous. Raises StoreUnavailable, and DiskFull for writes."""

    async def member(self, user: UserId) -> Member | None:
        """Return the user's member number; None if the user does not exist or was deleted."""
        ...

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        """Return everything that decides what the user sees. The user's own writes are visible immediately.

        If more than MAX_BLOCKERS users block this user, the result has the first MAX_BLOCKERS by user ID, and all
        those that the user follows.
        """
        ...

    async def cached_member(self, user: UserId) -> Member | None:
        """Return the member number according to a cached directory entry for a range of ids (`IdRange`), if any.

        The call reads no store and proves nothing: the account may be deleted or may have another number. `open`
        verifies the number.
        """
        ...

    async def open(self, user: UserId, cached_member: Member | None = None) -> InboxContext | None:
        """Return `member` and `viewer` in one call; None if the user does not exist or was deleted.

        The result does not depend on `cached_member`. A correct number makes the call faster: the account is read
        concurrently with everything else.
        """
        ...

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        """Move `seen_at` forward, never back, and mark the later bursts in `newer` as seen."""
        ...

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None: ...


# User blocks: rows that decide what a user sees, and that suppress alerts.


class UserBlocks(Protocol):
    """User blocks, stored for both sides. Durable and idempotent. Blocking. Raises StoreUnavailable or DiskFull."""

    def write(self, blocks: Collection[UserBlock]) -> None:
        """Store each user block on both sides, unless the stored one of its pair wins (`UserBlock.sequence`).

        Calls may come in any order. After an interruption some rows may be missing.
        """
        ...


# Subject preferences: the bitmaps of mutes and volumes can be rebuilt from these rows.

SubjectAndMember = tuple[Subject, Member]


class SubjectPreferences(Protocol):
    """Subject preferences. Durable and idempotent. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def write(self, changes: Collection[PreferenceChange]) -> None:
        """Apply each change; for each field of a pair the latest change wins, in whatever order the calls come."""
        ...

    def write_mutes(self, mutes: Iterable[MemberBlockMutes]) -> None:
        """Replace the mutes of each subject and block."""
        ...

    def read_own(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, SubjectPreference]:
        """Return the members' own preferences, set or imported, without mutes of their block.

        Pairs without one are missing.
        """
        ...

    def member_sets(self, subject: Subject, shard: int) -> Mapping[SetKind, Bits]:
        """Return the members that permanently muted the subject or set its volume, by set kind, empty sets included.

        The sets are computed from the stored changes and mutes.
        """
        ...


# Account preferences: the account-wide bitmaps can be rebuilt from these rows.


class AccountPreferencesStore(Protocol):
    """Account preferences. Durable and idempotent. Blocking. Raises StoreUnavailable, and DiskFull for writes."""

    def write(self, changes: Collection[AccountPreferencesChange]) -> None:
        """Apply each change; for each field the latest change wins, in whatever order the calls come."""
        ...

    def read_current(self, members: Collection[Member]) -> Mapping[Member, AccountPreferences]:
        """Return the preferences of the members; members that never set any are missing."""
        ...

    def member_sets(self, shard: int) -> Mapping[SetKind, Bits]:
        """Return the shard's members with an account-wide volume other than ALL, or a push setting, by set kind.

        Empty sets are included. The sets are computed from the stored changes.
        """
        ...


# Preferences of one user, as the API reads and writes them. Fan-out picks up changes later.


class Preferences(Protocol):
    """Preferences of one user. Asynchronous, because users wait. Raises StoreUnavailable, and DiskFull for writes."""

    async def read(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        """Return the preference for every subject with a setting by the member or the member's block.

        The member's own writes are visible immediately.
        """
        ...

    async def write(self, change: PreferenceChange) -> None:
        """Apply the change; for each field the latest change wins."""
        ...

    async def read_account(self, member: Member) -> AccountPreferences:
        """Return the member's account preferences. The member's own writes are visible immediately."""
        ...

    async def write_account(self, change: AccountPreferencesChange) -> None:
        """Apply the change to the account preferences; for each field the latest change wins."""
        ...
