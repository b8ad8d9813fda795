"""Inbox rows: a tier's bitmap of one shard, cut into one row per member range."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, offsets
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Member

RANGE_MEMBERS = 4_096
"""Successive members that share an inbox partition."""
RANGE_BYTES = RANGE_MEMBERS // 8
SHARD_RANGES = SHARD_MEMBERS // RANGE_MEMBERS

MIN_BITMAP_MEMBERS = RANGE_MEMBERS // 32
"""Rows with at least this many members hold a bitmap, which is cut without looking at single members.

Smaller rows hold a list of offsets, which is always shorter than a bitmap. The length tells the two apart.
"""

INBOX_WINDOW = timedelta(days=3)
"""Time span of an inbox partition. 90 days are 30 windows: one read each is cheap, and a window expires as a whole."""

_OFFSET_TYPE = np.dtype("<u2")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRows:
    """The rows of one tier of a burst in one shard."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    shard: int
    ranges: Sequence[int]
    """Member ranges with at least one recipient, ascending."""
    members: Sequence[bytes]
    """Encoded recipients of each range."""
    delivery_count: int

    @property
    def row_count(self) -> int:
        return len(self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One row as it is read: a reference to a burst, and its recipients in the range."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    members: bytes

    def contains(self, member: Member) -> bool:
        offset, members = member % RANGE_MEMBERS, self.members
        if len(members) == RANGE_BYTES:
            return bool(members[offset // 8] >> (offset % 8) & 1)
        encoded_offset, index = offset.to_bytes(2, "little"), -1
        # A match at an odd index spans two offsets and means nothing. "Not found" (-1) is odd as well.
        while (index := members.find(encoded_offset, index + 1)) % 2:
            if index < 0:
                return False
        return True

    def offsets(self) -> npt.NDArray[np.int64]:
        """Return the recipients' offsets within the range, ascending. Raises Poison for malformed bytes."""
        if len(self.members) == RANGE_BYTES:
            bits = np.frombuffer(self.members, dtype=np.uint8)
            return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        if len(self.members) % 2 or not 0 < len(self.members) < RANGE_BYTES:
            raise Poison(f"An inbox row has a list of members with the invalid length of {len(self.members)} bytes.")
        listed = np.frombuffer(self.members, dtype=_OFFSET_TYPE).astype(np.int64)
        if listed.max() >= RANGE_MEMBERS:
            raise Poison(f"An inbox row has the offset {listed.max()}, outside its range.")
        return listed


def cut_inbox_rows(bits: Bits, *, burst: BurstKey, opened_at: datetime, tier: Tier, shard: int) -> InboxRows:
    """Cut the bitmap into rows. The same bitmap always gives byte-identical rows."""
    by_range = bits.reshape(SHARD_RANGES, -1)
    counts = np.bitwise_count(by_range).sum(axis=1, dtype=np.int64)
    ranges = np.flatnonzero(counts)
    is_list = counts[ranges] < MIN_BITMAP_MEMBERS
    list_ranges, bitmap_ranges = ranges[is_list], ranges[~is_list]
    listed = offsets(by_range[list_ranges].reshape(-1)) % RANGE_MEMBERS
    lists = iter(_split(listed.astype(_OFFSET_TYPE).tobytes(), (counts[list_ranges] * _OFFSET_TYPE.itemsize).tolist()))
    bitmaps = iter(_split(by_range[bitmap_ranges].tobytes(), [RANGE_BYTES] * len(bitmap_ranges)))
    return InboxRows(
        burst=burst,
        opened_at=opened_at,
        tier=tier,
        shard=shard,
        ranges=(ranges + shard * SHARD_RANGES).tolist(),
        members=[next(lists if is_listed else bitmaps) for is_listed in is_list.tolist()],
        delivery_count=int(counts.sum()),
    )


def range_of(member: Member) -> int:
    return member // RANGE_MEMBERS


def window_of(opened_at: datetime) -> int:
    """Return the number of the inbox window, counted from 1970."""
    return int(opened_at.timestamp() // INBOX_WINDOW.total_seconds())


def _split(body: bytes, lengths: Sequence[int]) -> Sequence[bytes]:
    """Split the bytes into consecutive parts of these lengths."""
    return [body[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))]
