"""Follows of subjects, stored per member or per block."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from notifier.domain.audience.bitmap import (
    BLOCK_BYTES,
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_BYTES,
    Bits,
    from_bytes,
    with_members,
)
from notifier.domain.ids import Member, Subject

UNFOLLOWED = datetime(9999, 1, 2, tzinfo=UTC)
"""`visible_from` after an unfollow. The row stays: it overrides the block row, and suppresses alerts not sent yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """One member's follow or unfollow of one subject. It overrides the row of the member's block."""

    subject: Subject
    member: Member
    visible_from: datetime
    sequence: int
    """Sequence number for this member and subject, assigned by the graph service (>= 1; 0 for imports).

    The highest wins regardless of arrival order; on a tie, the later `visible_from` wins: an unfollow over a follow.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFollows:
    """Members of one block who follow a subject since the same time, in one row."""

    subject: Subject
    block: int
    visible_from: datetime
    members: bytes
    """The block's bitmap."""

    @property
    def key(self) -> "BlockKey":
        return self.subject, self.block

    def members_missing_in(self, stored: "BlockFollows") -> list[Member]:
        """Return the members that the stored row of the same subject and block lacks."""
        missing = int.from_bytes(self.members, "little") & ~int.from_bytes(stored.members, "little")
        first = self.block * BLOCK_MEMBERS
        return [Member(first + slot) for slot in range(BLOCK_MEMBERS) if missing >> slot & 1] if missing else []


BlockKey = tuple[Subject, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRow:
    """A stored row: one member's own row, or the row of a block for all members in its bitmap."""

    block: int
    slot: int
    """Number of the member within the block; WHOLE_BLOCK_SLOT in the row of a block."""
    visible_from: datetime
    members: bytes | None
    """The block's bitmap, or None for a member's own row."""

    @property
    def offset(self) -> int:
        """Return the member's offset within the shard."""
        return self.block % SHARD_BLOCKS * BLOCK_MEMBERS + self.slot


def followers(rows: Iterable[FollowRow]) -> Bits:
    """Return the followers of one subject in one shard. Member rows override block rows."""
    in_blocks, is_follower = bytearray(SHARD_BYTES), dict[int, bool]()
    for row in rows:
        if row.members is None:
            is_follower[row.offset] = row.visible_from < UNFOLLOWED
        else:
            first_byte = row.block % SHARD_BLOCKS * BLOCK_BYTES
            in_blocks[first_byte : first_byte + BLOCK_BYTES] = row.members
    return with_members(from_bytes(in_blocks), is_follower)


def is_following(slot: int, rows: Iterable[FollowRow]) -> bool:
    """Return whether the member in this slot follows. `rows` are those of one subject in the member's block."""
    in_block_row = False
    for row in rows:
        if row.members is None and row.slot == slot:
            return row.visible_from < UNFOLLOWED
        if row.members is not None:
            in_block_row = bool(row.members[slot // 8] >> slot % 8 & 1)
    return in_block_row
