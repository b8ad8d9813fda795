"""In-memory users, with setters that the port does not have; its coroutines never suspend."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from notifier.codec.account_preferences import encode_change
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, block_of, contains, shard_of
from notifier.domain.audience.follows import UNFOLLOWED, BlockFollows, BlockKey
from notifier.domain.audience.user_ids_to_members import split_id
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
    AccountPreferencesPatch,
    visible_from,
)
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    MemberBlockMutes,
    PreferenceChange,
    PreferencePatch,
    SubjectPreference,
    Volume,
    current_preferences,
    own_volumes,
)
from notifier.domain.users.user_blocks import (
    MAX_BLOCKERS,
    BlockDirection,
    UserBlock,
    UserBlockEnds,
    blocked_accounts,
    subject_owners,
    user_block_ends,
    visible_after_unblock,
)
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.user_directory_and_account_flags import AccountFlags, Directory
from notifier.ports.viewers_preferences_user_blocks import InboxContext


class MemoryPeople:
    def __init__(
        self, directory: Directory, max_blockers: int = MAX_BLOCKERS, flags: AccountFlags | None = None
    ) -> None:
        self._directory = directory
        self._flags = flags
        self._max_blockers = max_blockers
        self.blocks: dict[BlockKey, BlockFollows] = {}
        self.own: dict[Member, dict[Subject, datetime]] = defaultdict(dict)
        """`visible_from` of each follow by its own row."""
        self._apart: dict[Member, dict[tuple[UserId, BlockDirection], datetime]] = defaultdict(dict)
        self.subject_changes: dict[Member, dict[Subject, dict[str, PreferenceChange]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        """Latest change of each field."""
        self.account_changes: dict[Member, dict[str, AccountPreferencesChange]] = defaultdict(dict)
        """Latest account-wide change of each field."""
        self.mutes: dict[tuple[int, Subject], MemberBlockMutes] = {}
        self._seen_at: dict[Member, datetime] = {}
        self._newer: dict[Member, set[BurstKey]] = defaultdict(set)
        self._marks: dict[Member, dict[BurstKey, Mark]] = defaultdict(dict)

    async def member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return self._viewer(user, member)

    async def cached_member(self, user: UserId) -> Member | None:
        parts, ids = split_id(user), self._directory.id_range_of(user)
        return ids.member_of(parts[1]) if parts and ids else None

    async def open(self, user: UserId, cached_member: Member | None = None) -> InboxContext | None:
        if (member := await self.member(user)) is None:
            return None
        vip = self._flags is not None and contains(self._flags.members(Flag.VIP, shard_of(member)), member)
        return InboxContext(member=member, viewer=self._viewer(user, member), is_vip=vip)

    async def mark_seen(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        self._seen_at[member] = max(seen_at, self._seen_at.get(member, seen_at))
        self._newer[member].update(newer)

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        self._marks[member].update(dict.fromkeys(bursts, mark))

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None:
        self.own[self._member(user)][subject] = visible_from

    def unfollow(self, user: UserId, subject: Subject) -> None:
        self.own[self._member(user)][subject] = UNFOLLOWED

    def mute(self, user: UserId, subject: Subject) -> None:
        self._patch(user, subject, PreferencePatch(muted_until=NEVER))

    def unmute(self, user: UserId, subject: Subject, now: datetime) -> None:
        self._patch(user, subject, PreferencePatch(muted_until=ALWAYS), now)

    def block(self, user: UserId, peer: UserId) -> None:
        """Hide each from the other."""
        self.unblock(user, peer, NEVER)

    def unblock(self, user: UserId, peer: UserId, now: datetime) -> None:
        members = self._directory.assign_numbers([user, peer])
        self.apply_block(
            UserBlock(
                blocker=user,
                blocker_member=members[user],
                blocked=peer,
                blocked_member=members[peer],
                until=now,
                sequence=0,
            )
        )

    def apply_block(self, block: UserBlock) -> None:
        """Replace the current block state of the pair."""
        for side in block.sides:
            self._apart[side.member][side.other_account, side.direction] = side.until

    def volume(self, user: UserId, subject: Subject, volume: Volume) -> None:
        member = self._member(user)
        before = self.subject_preferences(member).get(
            subject, SubjectPreference(subject=subject, member=member, at=ALWAYS)
        )
        self.apply_change(replace(PreferencePatch(volume=volume).change_for(before, ALWAYS), visible_from=None))

    def apply_change(self, change: PreferenceChange) -> None:
        changes = self.subject_changes[change.member][change.subject]
        for name in ("volume", "visible_from"):
            if getattr(change, name) is not None and (name not in changes or change.at > changes[name].at):
                changes[name] = change

    def patch_account(self, user: UserId, patch: AccountPreferencesPatch) -> None:
        """Apply a patch as of the beginning of time, so that it hides nothing."""
        member = self._member(user)
        change = patch.change_for(member, self.account_preferences(member), ALWAYS)
        self.apply_account_change(replace(change, visible_from=None, default_from=None))

    def apply_account_change(self, change: AccountPreferencesChange) -> None:
        changes = self.account_changes[change.member]
        for field_name in encode_change(change):
            if field_name not in changes or change.at > changes[field_name].at:
                changes[field_name] = change

    def account_preferences(self, member: Member) -> AccountPreferences:
        changes = self.account_changes.get(member, {})
        latest = max((change.at for change in changes.values()), default=ALWAYS)
        return replace(
            DEFAULT_ACCOUNT_PREFERENCES,
            at=latest,
            **{field_name: getattr(change, field_name) for field_name, change in changes.items()},
        )

    def own_preferences(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        subject_preferences = dict[Subject, SubjectPreference]()
        for subject, changes in self.subject_changes.get(member, {}).items():
            if not changes:
                continue
            fields = {name: getattr(change, name) for name, change in changes.items()}
            latest = max(change.at for change in changes.values())
            subject_preferences[subject] = SubjectPreference(subject=subject, member=member, at=latest, **fields)
        return subject_preferences

    def subject_preferences(self, member: Member) -> Mapping[Subject, SubjectPreference]:
        return current_preferences(member, self.own_preferences(member).values(), self.mutes.values())

    def known(self) -> dict[Member, Viewer]:
        """Return the viewers of all members with any row."""
        members = self._directory.users(
            {
                *self.own,
                *self.subject_changes,
                *self.account_changes,
                *self._apart,
                *self._seen_at,
                *self._newer,
                *self._marks,
            }
        )
        return {member: self._viewer(user, member) for member, user in members.items()}

    def _viewer(self, user: UserId, member: Member) -> Viewer:
        follows, subject_preferences, overall = (
            self._follows(member),
            self.subject_preferences(member),
            self.account_preferences(member),
        )
        user_blocks = self._user_blocks(member, follows)
        marks = Marks(
            seen_at=self._seen_at.get(member),
            also_seen=frozenset(self._newer[member]),
            by_burst=dict(self._marks[member]),
        )
        return Viewer(
            user=user,
            follows=visible_after_unblock(visible_from(follows, subject_preferences, overall), user_blocks),
            blocked=blocked_accounts(user_blocks),
            volume=own_volumes(subject_preferences),
            marks=marks,
            account_preferences=overall,
        )

    def _user_blocks(self, member: Member, follows: Collection[Subject]) -> UserBlockEnds:
        rows = self._apart.get(member, {})
        blockers = sorted(peer for peer, side in rows if side is BlockDirection.BLOCKED_BY)
        known = {*blockers[: self._max_blockers], *subject_owners(follows)}
        return user_block_ends(
            (peer, at) for (peer, side), at in rows.items() if side is BlockDirection.BLOCKS or peer in known
        )

    def _patch(self, user: UserId, subject: Subject, patch: PreferencePatch, now: datetime = ALWAYS) -> None:
        member = self._member(user)
        before = self.subject_preferences(member).get(
            subject, SubjectPreference(subject=subject, member=member, at=ALWAYS)
        )
        self.apply_change(patch.change_for(before, now))

    def _member(self, user: UserId) -> Member:
        return self._directory.accounts([user])[user].member

    def _follows(self, member: Member) -> dict[Subject, datetime]:
        slot = member % BLOCK_MEMBERS
        shared = {
            subject: follow.visible_from
            for (subject, block), follow in self.blocks.items()
            if block == block_of(member) and follow.members[slot // 8] >> slot % 8 & 1
        }
        follows = shared | self.own.get(member, {})
        return {subject: since for subject, since in follows.items() if since < UNFOLLOWED}
