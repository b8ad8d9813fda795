"""The member sets in memory."""

from collections.abc import Iterable, Mapping, Sequence

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, nobody, shard_of
from notifier.domain.audience.tiers import OF_A_SUBJECT, OF_EVERYBODY, SetKind, ShardSets
from notifier.domain.delivery.plan import NO_FOLLOWERS, SetHead
from notifier.domain.fencing import Stamp
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.ports.audience import ShardBlob
from notifier.ports.directory import Directory


class MemoryMemberSets:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._sets: dict[tuple[SetKind, Subject | None, int], Bits] = {}
        self._heads: dict[Subject, SetHead] = {}
        self._stamps: dict[object, int] = {}
        self.refused = 0
        """Writes over a later writer's."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        return [self._live(subject, shard, restricted_to) for shard in shards]

    def _live(self, subject: Subject, shard: int, restricted_to: UserId | None) -> ShardSets:
        found = self._of_one(subject.owner, shard) if subject.kind is Kind.SELF else self._of_all(subject, shard)
        if restricted_to is None:
            return ShardSets(sets=found)
        author = Subject(Kind.MENTION, restricted_to)
        followers = self._sets.get((SetKind.FOLLOWERS, author, shard), nobody())
        return ShardSets(sets=found, mentioner_followers=followers)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        return {shard: self._sets[kind, owner, shard] for shard in shards if (kind, owner, shard) in self._sets}

    def head(self, subject: Subject) -> SetHead:
        if subject.kind is not Kind.SELF:
            return self._heads.get(subject, NO_FOLLOWERS)
        member = self._member(subject.owner)
        return NO_FOLLOWERS if member is None else SetHead(total=1, counts=(*([0] * shard_of(member)), 1))

    def put(self, blobs: Iterable[ShardBlob], stamp: Stamp | None = None) -> None:
        for blob in blobs:
            name = blob.kind, blob.owner, blob.shard
            if self._stands(name, stamp):
                self._sets[name] = blob.bits.copy()

    def put_heads(self, heads: Mapping[Subject, SetHead], stamp: Stamp | None = None) -> None:
        self._heads |= {subject: head for subject, head in heads.items() if self._stands(subject, stamp)}

    def force(self, value: ShardBlob | SetHead, of: Subject | None = None) -> None:
        """As a disk that forgets or makes something up."""
        if isinstance(value, SetHead):
            assert of is not None
            self._heads[of] = value
        else:
            self._sets[value.kind, value.owner, value.shard] = value.bits

    def _stands(self, name: object, stamp: int | None) -> bool:
        later = (stamp or 0) >= self._stamps.get(name, 0)
        if later:
            self._stamps[name] = stamp or 0
        else:
            self.refused += 1
        return later

    def _of_all(self, subject: Subject, shard: int) -> dict[SetKind, Bits]:
        names = [(kind, subject, shard) for kind in OF_A_SUBJECT] + [(kind, None, shard) for kind in OF_EVERYBODY]
        return {name[0]: self._sets[name] for name in names if name in self._sets}

    def _of_one(self, owner: UserId, shard: int) -> dict[SetKind, Bits]:
        member = self._member(owner)
        if member is None or shard_of(member) != shard:
            return {}
        phones = {
            kind: self._sets.get((kind, None, shard), nobody())
            for kind in (SetKind.PUSH, SetKind.NO_PUSH, SetKind.ASKED)
        }
        return {SetKind.FOLLOWERS: from_offsets([member % SHARD_MEMBERS]), **phones}

    def _member(self, user: UserId) -> Member | None:
        account = self._directory.accounts([user]).get(user)
        return None if account is None or account.deleted else account.member
