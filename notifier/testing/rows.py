"""All inbox rows of a burst, put together again: whom they reach, by tier and shard, and whom twice."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, SHARD_RANGES
from notifier.domain.audience.tiers import Tier
from notifier.ports.archive import StoredRow
from notifier.testing.world import Flags


@dataclass(slots=True, kw_only=True)
class Reached:
    rows: int = 0
    by_tier: dict[tuple[Tier, int], Flags] = field(default_factory=dict)
    """By tier and shard."""
    twice: int = 0
    """People who are reached by more than one row."""

    def tier(self, tier: Tier, shard: int) -> Flags:
        return self.by_tier.get((tier, shard), _NOBODY)

    def people(self) -> int:
        return sum(int(flags.sum()) for flags in self.by_tier.values())


def put_together(rows: Iterable[StoredRow]) -> Reached:
    found = Reached()
    times: dict[tuple[Tier, int], npt.NDArray[np.uint8]] = defaultdict(lambda: np.zeros(SHARD_MEMBERS, dtype=np.uint8))
    for stored in rows:
        found.rows += 1
        shard, number = divmod(stored.member_range, SHARD_RANGES)
        np.add.at(times[stored.row.tier, shard], number * RANGE_MEMBERS + stored.row.places(), 1)
    shards = {shard for _, shard in times}
    for shard in shards:
        total = sum(reached.astype(np.int64) for (_, place), reached in times.items() if place == shard)
        found.twice += int((np.asarray(total) > 1).sum())
    found.by_tier = {key: reached > 0 for key, reached in times.items()}
    return found


_NOBODY = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
