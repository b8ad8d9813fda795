"""Inbox rows: a tier's bitmap of a shard, cut into one row for each range of members that it reaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, offsets
from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Member

RANGE_MEMBERS = 4_096
"""Members who share an inbox partition. docs/decisions has the measurements behind it."""
RANGE_BYTES = RANGE_MEMBERS // 8
SHARD_RANGES = SHARD_MEMBERS // RANGE_MEMBERS

BITMAP_FROM = RANGE_MEMBERS // 32
"""From so many members on a row has a bitmap, which is cut without looking at anybody. Lists are shorter: the length
tells which of them it is."""

INBOX_WINDOW = timedelta(days=3)
"""90 days are 30 windows: few enough for one read each, and a whole window expires at once."""

_PLACE = np.dtype("<u2")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRows:
    """The rows of one tier of a burst in one shard."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    shard: int
    ranges: Sequence[int]
    """Numbers of the member ranges in which somebody is reached, ascending."""
    members: Sequence[bytes]
    """Who is reached in each of them."""
    deliveries: int

    @property
    def written(self) -> int:
        return len(self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One row as a reader finds it: a reference to a burst, and whom of the range it reaches."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    members: bytes

    def reaches(self, member: Member) -> bool:
        place, members = member % RANGE_MEMBERS, self.members
        if len(members) == RANGE_BYTES:
            return bool(members[place // 8] >> (place % 8) & 1)
        wanted, at = place.to_bytes(2, "little"), -1
        # Two bytes are also found across two places, where they mean nobody.
        while (at := members.find(wanted, at + 1)) % 2:
            if at < 0:
                return False
        return True

    def places(self) -> npt.NDArray[np.int64]:
        """Return the places within the range, ascending. Raises Poison for bytes that no row has."""
        if len(self.members) == RANGE_BYTES:
            bits = np.frombuffer(self.members, dtype=np.uint8)
            return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        if len(self.members) % 2 or not 0 < len(self.members) < RANGE_BYTES:
            raise Poison(f"An inbox row names its members in {len(self.members)} bytes.")
        places = np.frombuffer(self.members, dtype=_PLACE).astype(np.int64)
        if places.max() >= RANGE_MEMBERS:
            raise Poison(f"An inbox row names the place {places.max()} of a range.")
        return places


def cut(bits: Bits, *, burst: BurstKey, opened_at: datetime, tier: Tier, shard: int) -> InboxRows:
    """The same bitmap always gives the same rows, byte by byte."""
    by_range = bits.reshape(SHARD_RANGES, -1)
    reached = np.bitwise_count(by_range).sum(axis=1, dtype=np.int64)
    ranges = np.flatnonzero(reached)
    is_list = reached[ranges] < BITMAP_FROM
    listed, mapped = ranges[is_list], ranges[~is_list]
    places = offsets(by_range[listed].reshape(-1)) % RANGE_MEMBERS
    lists = iter(_slices(places.astype(_PLACE).tobytes(), (reached[listed] * _PLACE.itemsize).tolist()))
    bitmaps = iter(_slices(by_range[mapped].tobytes(), [RANGE_BYTES] * len(mapped)))
    return InboxRows(
        burst=burst,
        opened_at=opened_at,
        tier=tier,
        shard=shard,
        ranges=(ranges + shard * SHARD_RANGES).tolist(),
        members=[next(lists if each else bitmaps) for each in is_list.tolist()],
        deliveries=int(reached.sum()),
    )


def range_of(member: Member) -> int:
    return member // RANGE_MEMBERS


def window_of(opened_at: datetime) -> int:
    """The inbox window's number, counted from 1970."""
    return int(opened_at.timestamp() // INBOX_WINDOW.total_seconds())


def _slices(body: bytes, lengths: Sequence[int]) -> Sequence[bytes]:
    return [body[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))]
