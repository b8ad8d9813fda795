"""The people of a world as bitmaps, a shard in some ten microseconds: made from patterns that repeat themselves."""

from collections.abc import Callable, Mapping

import numpy as np

from notifier.domain.audience import SetKind
from notifier.domain.bits import SHARD_MEMBERS, Bits, from_flags
from notifier.testing.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, MUTED_EVERY, PUSH_OF, VIP_EVERY, Flags, World
from notifier.testing.world import Members as Numbers


class Crowd:
    """Bit for bit what the world's formulas say."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._everybody: Mapping[SetKind, Flags] = {
            SetKind.ACTIVE_24H: _repeated(1000, lambda m: world.idleness(m) < ACTIVE_24H),
            SetKind.ACTIVE_30D: _repeated(1000, lambda m: world.idleness(m) < ACTIVE_30D),
            SetKind.ACTIVE_7D: _repeated(1000, lambda m: world.idleness(m) < ACTIVE_7D),
            SetKind.PUSH: _repeated(PUSH_OF, world.push),
            SetKind.VIP: _repeated(VIP_EVERY, world.vip),
        }
        self._periods = dict.fromkeys(self._everybody, 1000) | {SetKind.PUSH: PUSH_OF, SetKind.VIP: VIP_EVERY}
        self._muting = _repeated(MUTED_EVERY, lambda m: m % MUTED_EVERY == 0)
        # Neighbours stand `spread` places apart in every celebrity's line: one table serves all shards.
        steps = np.arange(SHARD_MEMBERS, dtype=np.int64) * world.spread % world.universe
        self._steps = steps.astype(np.uint32)

    def everybody(self, kind: SetKind, shard: int) -> Bits:
        first = shard * SHARD_MEMBERS
        return self._cut(self._everybody[kind], first % self._periods[kind], shard)

    def followers(self, star: int, shard: int) -> Bits:
        """Those who muted it included."""
        world = self.world
        if world.size(star) == world.universe:
            return from_flags(np.ones(self._people(shard), dtype=np.bool_))
        first = -world.place(star, shard * SHARD_MEMBERS) % world.universe
        end = first + world.size(star)
        if end <= world.universe:
            flags = (self._steps >= first) & (self._steps < end)
        else:
            flags = (self._steps >= first) | (self._steps < end - world.universe)
        return from_flags(flags[: self._people(shard)])

    def muting(self, star: int, shard: int) -> Bits:
        """Followers who muted it."""
        shift = (shard * SHARD_MEMBERS + 31 * star + self.world.seed) % MUTED_EVERY
        muting: Bits = self._cut(self._muting, shift, shard) & self.followers(star, shard)
        return muting

    def _cut(self, pattern: Flags, start: int, shard: int) -> Bits:
        return from_flags(pattern[start : start + self._people(shard)])

    def _people(self, shard: int) -> int:
        return min(SHARD_MEMBERS, self.world.universe - shard * SHARD_MEMBERS)


def _repeated(period: int, flags: Callable[[Numbers], Flags]) -> Flags:
    """Long enough to cut a shard from any place in the period."""
    once = flags(np.arange(period, dtype=np.int64))
    return np.tile(once, -(-(SHARD_MEMBERS + period) // period))
