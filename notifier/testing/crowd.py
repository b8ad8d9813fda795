"""The people of a world as bitmaps, a shard in some ten microseconds: made from patterns that repeat themselves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_flags
from notifier.domain.audience.tiers import SetKind
from notifier.testing.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, MUTED_EVERY, PUSH_OF, VIP_EVERY, Flags, World
from notifier.testing.world import Members as Numbers


@dataclass(frozen=True, slots=True)
class Pattern:
    period: int
    flags: Flags
    """Long enough to cut a shard from any place in the period."""


class Crowd:
    """Bit for bit what the world's formulas say."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._everybody: Mapping[SetKind, Sequence[Pattern]] = {
            SetKind.ACTIVE_24H: [_repeated(1000, lambda m: world.idleness(m) < ACTIVE_24H)],
            SetKind.ACTIVE_30D: [_repeated(1000, lambda m: world.idleness(m) < ACTIVE_30D)],
            SetKind.ACTIVE_7D: [_repeated(1000, lambda m: world.idleness(m) < ACTIVE_7D)],
            SetKind.PUSH: [
                _repeated(PUSH_OF * VIP_EVERY, world.vip_push),
                _repeated(world.device_every, world.other_push),
            ],
            SetKind.VIP: [_repeated(VIP_EVERY, world.vip)],
        }
        self._muting = _repeated(MUTED_EVERY, lambda m: m % MUTED_EVERY == 0)
        # Neighbours stand `spread` places apart in every celebrity's line: one table serves all shards.
        steps = np.arange(SHARD_MEMBERS, dtype=np.int64) * world.spread % world.universe
        self._steps = steps.astype(np.uint32)

    def everybody(self, kind: SetKind, shard: int) -> Bits:
        """In any of the kind's patterns."""
        found = [self._cut(pattern, shard * SHARD_MEMBERS, shard) for pattern in self._everybody[kind]]
        return reduce(or_, found)

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
        shift = shard * SHARD_MEMBERS + 31 * star + self.world.seed
        muting: Bits = self._cut(self._muting, shift, shard) & self.followers(star, shard)
        return muting

    def _cut(self, pattern: Pattern, start: int, shard: int) -> Bits:
        place = start % pattern.period
        return from_flags(pattern.flags[place : place + self._people(shard)])

    def _people(self, shard: int) -> int:
        return min(SHARD_MEMBERS, self.world.universe - shard * SHARD_MEMBERS)


def _repeated(period: int, flags: Callable[[Numbers], Flags]) -> Pattern:
    once = flags(np.arange(period, dtype=np.int64))
    return Pattern(period, np.tile(once, -(-(SHARD_MEMBERS + period) // period)))
