"""People in memory, with the setters that the port leaves out; its coroutines never suspend."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from notifier.codec.preferences import said
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, block_of, holds, shard_of
from notifier.domain.audience.follows import LEFT, BlockFollows, Place
from notifier.domain.audience.id_ranges import numbered
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWish, OverallWord, visible_from
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    BlockMute,
    Volume,
    Want,
    Wish,
    Word,
    standing,
    volumes,
)
from notifier.domain.users.user_blocks import MOST_BLOCKERS, Apart, Parting, Side, apart, owners, parted, reunited
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.directory import Directory, Flags
from notifier.ports.users import InboxContext


class MemoryPeople:
    def __init__(self, directory: Directory, most_blockers: int = MOST_BLOCKERS, flags: Flags | None = None) -> None:
        self._directory = directory
        self._flags = flags
        self._most_blockers = most_blockers
        self.blocks: dict[Place, BlockFollows] = {}
        self.own: dict[Member, dict[Subject, datetime]] = defaultdict(dict)
        """`visible_from` by each member's own word."""
        self._apart: dict[Member, dict[tuple[UserId, Side], datetime]] = defaultdict(dict)
        self.words: dict[Member, dict[Subject, dict[str, Word]]] = defaultdict(lambda: defaultdict(dict))
        """The latest about each of the things that a word may be about."""
        self.overall_words: dict[Member, dict[str, OverallWord]] = defaultdict(dict)
        """The same of everything."""
        self.mutes: dict[tuple[int, Subject], BlockMute] = {}
        self._seen_at: dict[Member, datetime] = {}
        self._newer: dict[Member, set[BurstKey]] = defaultdict(set)
        self._marks: dict[Member, dict[BurstKey, Mark]] = defaultdict(dict)

    async def member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member

    async def viewer(self, user: UserId, member: Member) -> Viewer:
        return self._viewer(user, member)

    async def expected(self, user: UserId) -> Member | None:
        parts, ids = numbered(user), self._directory.range_of(user)
        return ids.member_of(parts[1]) if parts and ids else None

    async def open(self, user: UserId, expected: Member | None = None) -> InboxContext | None:
        if (member := await self.member(user)) is None:
            return None
        vip = self._flags is not None and holds(self._flags.members(Flag.VIP, shard_of(member)), member)
        return InboxContext(member=member, viewer=self._viewer(user, member), vip=vip)

    async def see(self, member: Member, seen_at: datetime, newer: Collection[BurstKey]) -> None:
        self._seen_at[member] = max(seen_at, self._seen_at.get(member, seen_at))
        self._newer[member].update(newer)

    async def mark(self, member: Member, bursts: Collection[BurstKey], mark: Mark) -> None:
        self._marks[member].update(dict.fromkeys(bursts, mark))

    def follow(self, user: UserId, subject: Subject, visible_from: datetime) -> None:
        self.own[self._member(user)][subject] = visible_from

    def unfollow(self, user: UserId, subject: Subject) -> None:
        self.own[self._member(user)][subject] = LEFT

    def mute(self, user: UserId, subject: Subject) -> None:
        self._wish(user, subject, Wish(muted_until=NEVER))

    def unmute(self, user: UserId, subject: Subject, now: datetime) -> None:
        self._wish(user, subject, Wish(muted_until=ALWAYS), now)

    def block(self, user: UserId, other: UserId) -> None:
        """Each is hidden from the other."""
        self.unblock(user, other, NEVER)

    def unblock(self, user: UserId, other: UserId, now: datetime) -> None:
        members = self._directory.number([user, other])
        self.part(
            Parting(
                blocker=user,
                blocker_member=members[user],
                blocked=other,
                blocked_member=members[other],
                until=now,
                sequence=0,
            )
        )

    def part(self, parting: Parting) -> None:
        """In place of what stands."""
        for half in parting.halves:
            self._apart[half.member][half.other, half.side] = half.until

    def volume(self, user: UserId, subject: Subject, volume: Volume) -> None:
        member = self._member(user)
        before = self.wants(member).get(subject, Want(subject=subject, member=member, at=ALWAYS))
        self.say(replace(Wish(volume=volume).heard(before, ALWAYS), visible_from=None))

    def say(self, word: Word) -> None:
        about = self.words[word.member][word.subject]
        for name in ("volume", "visible_from"):
            if getattr(word, name) is not None and (name not in about or word.at > about[name].at):
                about[name] = word

    def arrange(self, user: UserId, wish: OverallWish) -> None:
        """As it would be said at the beginning of time, so that nothing is left."""
        member = self._member(user)
        word = wish.heard(member, self.overall(member), ALWAYS)
        self.say_of_everything(replace(word, visible_from=None, default_from=None))

    def say_of_everything(self, word: OverallWord) -> None:
        about = self.overall_words[word.member]
        for thing in said(word):
            if thing not in about or word.at > about[thing].at:
                about[thing] = word

    def overall(self, member: Member) -> Overall:
        about = self.overall_words.get(member, {})
        latest = max((word.at for word in about.values()), default=ALWAYS)
        return replace(NOTHING_SAID, at=latest, **{thing: getattr(word, thing) for thing, word in about.items()})

    def own_wants(self, member: Member) -> Mapping[Subject, Want]:
        found = dict[Subject, Want]()
        for subject, about in self.words.get(member, {}).items():
            if not about:
                continue
            told = {name: getattr(word, name) for name, word in about.items()}
            latest = max(word.at for word in about.values())
            found[subject] = Want(subject=subject, member=member, at=latest, **told)
        return found

    def wants(self, member: Member) -> Mapping[Subject, Want]:
        return standing(member, self.own_wants(member).values(), self.mutes.values())

    def known(self) -> dict[Member, Viewer]:
        """Everybody of whom anything was told or whose marks stand."""
        members = self._directory.users(
            {*self.own, *self.words, *self.overall_words, *self._apart, *self._seen_at, *self._newer, *self._marks}
        )
        return {member: self._viewer(user, member) for member, user in members.items()}

    def _viewer(self, user: UserId, member: Member) -> Viewer:
        follows, wants, overall = self._follows(member), self.wants(member), self.overall(member)
        with_others = self._partings(member, follows)
        marks = Marks(
            seen_at=self._seen_at.get(member),
            also_seen=frozenset(self._newer[member]),
            by_burst=dict(self._marks[member]),
        )
        return Viewer(
            user=user,
            follows=reunited(visible_from(follows, wants, overall), with_others),
            blocked=parted(with_others),
            volume=volumes(wants),
            marks=marks,
            overall=overall,
        )

    def _partings(self, member: Member, follows: Collection[Subject]) -> Apart:
        rows = self._apart.get(member, {})
        others = sorted(other for other, side in rows if side is Side.BLOCKED_BY)
        known = {*others[: self._most_blockers], *owners(follows)}
        return apart((other, at) for (other, side), at in rows.items() if side is Side.BLOCKS or other in known)

    def _wish(self, user: UserId, subject: Subject, wish: Wish, now: datetime = ALWAYS) -> None:
        member = self._member(user)
        before = self.wants(member).get(subject, Want(subject=subject, member=member, at=ALWAYS))
        self.say(wish.heard(before, now))

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
        return {subject: since for subject, since in follows.items() if since < LEFT}
