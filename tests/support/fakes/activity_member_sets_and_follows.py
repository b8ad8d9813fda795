"""In-memory activity hours, active sets, member sets and follows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import (
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_BYTES,
    SHARD_MEMBERS,
    Bits,
    block_of,
    from_bytes,
    from_offsets,
    no_members,
    shard_of,
    union_by_shard,
)
from notifier.domain.audience.follows import UNFOLLOWED, BlockFollows, BlockKey, Follow
from notifier.domain.audience.tiers_and_member_sets import ACCOUNT_WIDE_SETS, SUBJECT_SETS, SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, FollowerCounts
from notifier.domain.fencing import FencingToken
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ActiveSetEntry, ShardBitmap, SubjectAndMember
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.user_directory_and_account_flags import Directory
from tests.support.fakes.viewer_facts import MemoryPeople


@dataclass(slots=True)
class MemoryActivity:
    hours: dict[tuple[int, int], bytearray] = field(default_factory=dict)

    def wipe(self) -> None:
        self.hours.clear()

    async def touch(self, members: Collection[Member], hour: int) -> None:
        self.note(members, hour)

    def note(self, members: Collection[Member], hour: int) -> None:
        for member in members:
            place = member % SHARD_MEMBERS
            bits = self.hours.setdefault((hour, shard_of(member)), bytearray(SHARD_BYTES))
            bits[place // 8] |= 1 << place % 8


@dataclass(slots=True)
class MemoryActiveHours:
    activity: MemoryActivity
    clock: Clock
    rolled_up: tuple[datetime, datetime] | None = None
    """Time of the last roll-up, and when it expires."""

    def wipe(self) -> None:
        self.activity.wipe()
        self.rolled_up = None

    def touch(self, members: Collection[Member], hour: int) -> None:
        self.activity.note(members, hour)

    def read(self, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        hours = {shard: self.activity.hours.get((hour, shard)) for shard in shards}
        return {shard: from_bytes(bytes(bits)) for shard, bits in hours.items() if bits}

    def record_roll_up(self, at: datetime, ttl: timedelta) -> None:
        self.rolled_up = at, self.clock.now() + ttl

    def last_roll_up(self) -> datetime | None:
        return self.rolled_up[0] if self.rolled_up and self.clock.now() < self.rolled_up[1] else None


# Active-set entries.

Name = tuple[SetKind, int, int]
"""The set, the shard and the last hour."""


@dataclass(slots=True)
class MemoryActiveSets:
    kept: dict[Name, tuple[int, Bits]] = field(default_factory=dict)

    def read_active(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return union_by_shard(
            (shard, bits)
            for (entry_kind, shard, until), (_, bits) in self.kept.items()
            if entry_kind is kind and shard in shards and until >= hour
        )

    def read_expiring(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        return {shard: self.kept[kind, shard, hour][1] for shard in shards if (kind, shard, hour) in self.kept}

    def put(self, entries: Iterable[ActiveSetEntry], token: FencingToken | None = None) -> None:
        for entry in entries:
            name, at = (entry.kind, entry.shard, entry.last_hour), token or 0
            if name not in self.kept or at >= self.kept[name][0]:
                self.kept[name] = at, entry.bits.copy()

    def delete_expired(self, hour: int) -> None:
        self.kept = {name: kept for name, kept in self.kept.items() if name[2] >= hour}


# Member sets.


class MemoryMemberSets:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._sets: dict[tuple[SetKind, Subject | None, int], Bits] = {}
        self._follower_counts: dict[Subject, FollowerCounts] = {}
        self._tokens: dict[object, int] = {}
        self.refused_count = 0
        """Number of writes rejected by a newer fencing token."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        return [self._live(subject, shard, restricted_to) for shard in shards]

    def _live(self, subject: Subject, shard: int, restricted_to: UserId | None) -> ShardSets:
        sets = self._of_one(subject.owner, shard) if subject.kind is Kind.SELF else self._of_all(subject, shard)
        if restricted_to is None:
            return ShardSets(sets=sets)
        author = Subject(Kind.MENTION, restricted_to)
        followers = self._sets.get((SetKind.FOLLOWERS, author, shard), no_members())
        return ShardSets(sets=sets, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        return {shard: self._sets[kind, owner, shard] for shard in shards if (kind, owner, shard) in self._sets}

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        if subject.kind is not Kind.SELF:
            return self._follower_counts.get(subject, NO_FOLLOWERS)
        member = self._member(subject.owner)
        return NO_FOLLOWERS if member is None else FollowerCounts(total=1, by_shard=(*([0] * shard_of(member)), 1))

    def put(self, bitmaps: Iterable[ShardBitmap], token: FencingToken | None = None) -> None:
        for bitmap in bitmaps:
            name = bitmap.kind, bitmap.owner, bitmap.shard
            if self._admits(name, token):
                self._sets[name] = bitmap.bits.copy()

    def put_follower_counts(self, counts: Mapping[Subject, FollowerCounts], token: FencingToken | None = None) -> None:
        self._follower_counts |= {
            subject: follower_counts for subject, follower_counts in counts.items() if self._admits(subject, token)
        }

    def force(self, value: ShardBitmap | FollowerCounts, of: Subject | None = None) -> None:
        """Overwrite a value without a check, like a disk that loses or corrupts data."""
        if isinstance(value, FollowerCounts):
            assert of is not None
            self._follower_counts[of] = value
        else:
            self._sets[value.kind, value.owner, value.shard] = value.bits

    def _admits(self, name: object, token: int | None) -> bool:
        later = (token or 0) >= self._tokens.get(name, 0)
        if later:
            self._tokens[name] = token or 0
        else:
            self.refused_count += 1
        return later

    def _of_all(self, subject: Subject, shard: int) -> dict[SetKind, Bits]:
        names = [(kind, subject, shard) for kind in SUBJECT_SETS] + [(kind, None, shard) for kind in ACCOUNT_WIDE_SETS]
        return {name[0]: self._sets[name] for name in names if name in self._sets}

    def _of_one(self, owner: UserId, shard: int) -> dict[SetKind, Bits]:
        member = self._member(owner)
        if member is None or shard_of(member) != shard:
            return {}
        device_sets = {
            kind: self._sets.get((kind, None, shard), no_members())
            for kind in (SetKind.WITH_DEVICE, SetKind.NO_PUSH, SetKind.PUSH_OPT_IN)
        }
        return {SetKind.FOLLOWERS: from_offsets([member % SHARD_MEMBERS]), **device_sets}

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member


# Follows; MemoryPeople shows the users' own rows.


class MemoryFollows:
    def __init__(self, people: MemoryPeople) -> None:
        self._people = people
        self._current: dict[SubjectAndMember, Follow] = {}

    def write(self, follows: Collection[Follow]) -> None:
        for follow in follows:
            pair = follow.subject, follow.member
            current = self._current.get(pair)
            if current is None or (follow.sequence, follow.visible_from) > (current.sequence, current.visible_from):
                self._current[pair] = follow
                self._people.own[follow.member][follow.subject] = follow.visible_from

    def write_blocks(self, follows: Iterable[BlockFollows]) -> None:
        self._people.blocks |= {follow.key: follow for follow in follows}

    def insert_blocks(self, follows: Collection[BlockFollows]) -> Mapping[BlockKey, BlockFollows]:
        places = {follow.key for follow in follows} & self._people.blocks.keys()
        current = {place: self._people.blocks[place] for place in places}
        self.write_blocks(follow for follow in follows if follow.key not in current)
        return current

    def read_current(self, pairs: Collection[SubjectAndMember]) -> Mapping[SubjectAndMember, bool]:
        return {pair: self._follows(*pair) for pair in pairs}

    def followers(self, subject: Subject, shard: int) -> Bits:
        members = {member for member, own in self._people.own.items() if subject in own and shard_of(member) == shard}
        blocks = range(shard * SHARD_BLOCKS, (shard + 1) * SHARD_BLOCKS)
        shared = {block for block_subject, block in self._people.blocks if block_subject == subject and block in blocks}
        members |= {Member(block * BLOCK_MEMBERS + slot) for block in shared for slot in range(BLOCK_MEMBERS)}
        return from_offsets([member % SHARD_MEMBERS for member in members if self._follows(subject, member)])

    def _follows(self, subject: Subject, member: Member) -> bool:
        if (since := self._people.own.get(member, {}).get(subject)) is not None:
            return since < UNFOLLOWED
        shared, slot = self._people.blocks.get((subject, block_of(member))), member % BLOCK_MEMBERS
        return shared is not None and bool(shared.members[slot // 8] >> slot % 8 & 1)
