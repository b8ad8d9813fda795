"""Block rows and member rows: a tier's bitmap of a shard, cut into the rows that stand for its deliveries."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from notifier.domain.audience import Tier
from notifier.domain.bits import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_BLOCKS, Bits, offsets
from notifier.domain.subject import BurstKey, Member

THRESHOLD = 32
"""T: a block row costs each reader of the block 1.9 us while it is in sight, a member row its one reader 5 us."""

BLOCK_SLOT = BLOCK_MEMBERS
"""The slot of block rows, behind those of the members."""

INBOX_WINDOW = timedelta(days=3)
"""90 days are 30 windows: few enough for one read each, and a whole window expires at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The inbox rows of one tier of a burst in one shard."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    shard: int
    blocks: npt.NDArray[np.int64]
    """Numbers of the blocks that get one row for all."""
    bitmaps: bytes
    """BLOCK_BYTES for each of them, in order."""
    members: npt.NDArray[np.int64]
    """Members who get a row of their own."""
    deliveries: int

    @property
    def written(self) -> int:
        return len(self.blocks) + len(self.members)

    def bitmap(self, index: int) -> bytes:
        return self.bitmaps[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row as a reader finds it: a reference to a burst."""

    burst: BurstKey
    opened_at: datetime
    tier: Tier
    slot: int
    members: bytes | None
    """The bitmap of a block row."""

    def reaches(self, member: Member) -> bool:
        place = member % BLOCK_MEMBERS
        if self.members is None:
            return self.slot == place
        return bool(self.members[place // 8] >> (place % 8) & 1)


def cut(bits: Bits, *, burst: BurstKey, opened_at: datetime, tier: Tier, shard: int, threshold: int) -> Rows:
    """Slicing is all there is to it: a shard's bitmap is its 128 blocks' bitmaps, one after another."""
    by_block = bits.reshape(SHARD_BLOCKS, -1)
    reached = np.bitwise_count(by_block).sum(axis=1, dtype=np.int64)
    dense = np.flatnonzero(reached >= threshold)
    sparse = np.flatnonzero((reached > 0) & (reached < threshold))
    number, place = np.divmod(offsets(by_block[sparse].reshape(-1)), BLOCK_MEMBERS)
    return Rows(
        burst=burst,
        opened_at=opened_at,
        tier=tier,
        shard=shard,
        blocks=dense + shard * SHARD_BLOCKS,
        bitmaps=by_block[dense].tobytes(),
        members=(sparse[number] + shard * SHARD_BLOCKS) * BLOCK_MEMBERS + place,
        deliveries=int(reached.sum()),
    )


def window_of(opened_at: datetime) -> int:
    """The inbox window's number, counted from 1970."""
    return int(opened_at.timestamp() // INBOX_WINDOW.total_seconds())
