"""Member sets with one corrupt bitmap."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from notifier.domain.audience.tiers_and_member_sets import SetKind, ShardSets
from notifier.domain.errors import Poison
from notifier.domain.ids import Subject, UserId
from notifier.ports.audience import ShardBitmap
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets
from tests.support.in_memory_system import NOVA


@dataclass
class CorruptSets:
    """Member sets with one corrupt bitmap, until it is rewritten."""

    port: MemoryMemberSets
    kind: SetKind
    owner: Subject | None = NOVA
    is_damaged: bool = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        author = restricted_to and Subject(NOVA.kind, restricted_to)
        if self.is_damaged and self.owner in (subject, author, None):
            raise Poison("A bit has flipped.")
        return self.port.live(subject, shards, restricted_to)

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Any:
        if self.is_damaged and (kind, owner) == (self.kind, self.owner):
            raise Poison("A bit has flipped.")
        return self.port.read(kind, owner, shards)

    def put(self, bitmaps: Iterable[ShardBitmap], token: Any = None) -> None:
        written = list(bitmaps)
        self.is_damaged &= not any((bitmap.kind, bitmap.owner) == (self.kind, self.owner) for bitmap in written)
        self.port.put(written, token)
