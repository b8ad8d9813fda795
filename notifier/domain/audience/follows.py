"""A follow: since when a member sees a subject, by the word of the pair that counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from notifier.domain.audience.bitmap import (
    BLOCK_BYTES,
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_BYTES,
    Bits,
    changed,
    from_bytes,
)
from notifier.domain.ids import Member, Subject

LEFT = datetime(9999, 1, 2, tzinfo=UTC)
"""`visible_from` of a subject that was left. The row stays: it overrides the block's, and tells who is to be spared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """One member's own word on one subject; it overrides what is said of the member's whole block."""

    subject: Subject
    member: Member
    visible_from: datetime
    sequence: int
    """Of the pair, by whoever keeps the graph, and at least 1, or 0 of an import: the highest counts, however late it
    comes. Of two with the same number the one that is visible later does, so that a leave wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFollows:
    """Many members of a block who follow a subject since the same moment: one row for all of them."""

    subject: Subject
    block: int
    visible_from: datetime
    members: bytes
    """The block's bitmap."""

    @property
    def place(self) -> "Place":
        return self.subject, self.block

    def beyond(self, stood: "BlockFollows") -> list[Member]:
        """Its members whom what stands of the same place doesn't have."""
        more = int.from_bytes(self.members, "little") & ~int.from_bytes(stood.members, "little")
        first = self.block * BLOCK_MEMBERS
        return [Member(first + slot) for slot in range(BLOCK_MEMBERS) if more >> slot & 1] if more else []


Place = tuple[Subject, int]
"""Of a block's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRow:
    """As it is stored: a member's own word, or one for all members of a block that the bitmap has."""

    block: int
    slot: int
    visible_from: datetime
    members: bytes | None
    """None: it is a member's own."""

    @property
    def place(self) -> int:
        """Within the shard."""
        return self.block % SHARD_BLOCKS * BLOCK_MEMBERS + self.slot


def followers(rows: Iterable[FollowRow]) -> Bits:
    """Of one subject in one shard: the blocks' members, and then what each says for itself."""
    shared, own = bytearray(SHARD_BYTES), dict[int, bool]()
    for row in rows:
        if row.members is None:
            own[row.place] = row.visible_from < LEFT
        else:
            first = row.block % SHARD_BLOCKS * BLOCK_BYTES
            shared[first : first + BLOCK_BYTES] = row.members
    return changed(from_bytes(shared), own)


def stands(slot: int, rows: Iterable[FollowRow]) -> bool:
    """Whether the block's member of this slot follows, by the rows of one subject in the block."""
    shared = False
    for row in rows:
        if row.members is None and row.slot == slot:
            return row.visible_from < LEFT
        if row.members is not None:
            shared = bool(row.members[slot // 8] >> slot % 8 & 1)
    return shared
