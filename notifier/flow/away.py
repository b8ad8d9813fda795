"""Away: alerts of one subject that came too late become one, "while you were away", of the newest of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.bits import Bits, nobody
from notifier.domain.burst import Burst
from notifier.domain.device import Platform
from notifier.domain.sending import NOTHING_SENT, Progress, progress
from notifier.domain.subject import BurstKey
from notifier.ports.bursts import Bursts
from notifier.ports.push import Sent, Spared
from notifier.ports.seals import Seals

STALE = timedelta(minutes=15)
"""After its opening; what rings later is no news."""
REACH = timedelta(hours=24)
"""A night, or a day without a provider."""
MOST = 32
"""Bursts of the subject that are looked at before and behind one: more than its budget of fan-outs allows in a day."""


def stale(burst: Burst, now: datetime) -> bool:
    return now > burst.opened_at + STALE


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """Of those to whom a late burst would be told."""

    collapsed: Bits = field(default_factory=nobody)
    """A newer one, as late, tells of this one."""
    counts: Mapping[int, Bits] = field(default_factory=dict)
    """The others, by the number of bursts for which this one speaks: itself, and older ones that weren't told."""


IN_TIME = Summed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Whoever asks, and however late, learns the same while nothing else is told: what is noted of the others counts as
    what is still to be."""

    bursts: Bursts
    seals: Seals
    sent: Sent
    spared: Spared

    def __call__(self, burst: Burst, platform: Platform, shard: int, people: Bits, now: datetime) -> Summed:
        if not people.any() or not stale(burst, now):
            return IN_TIME
        newer, older = self._others(burst, now)
        collapsed = nobody()
        for other in newer:
            found, left = self._of(other, platform, shard, now)
            collapsed = collapsed | (people & (left & ~found.collapsed | found.summed))
        return Summed(collapsed=collapsed, counts=self._counts(older, platform, shard, people & ~collapsed, now))

    def _others(self, burst: Burst, now: datetime) -> tuple[Sequence[Burst], Sequence[Burst]]:
        """Newer ones that are late, too, and older ones, from the newest on."""
        own = burst.key
        near = [BurstKey(own.subject, seq) for seq in range(max(1, own.seq - MOST), own.seq + MOST + 1)]
        found = self.bursts.read(near)
        others = sorted((found[key] for key in near if key in found and key != own), key=lambda one: one.key.seq)
        told = [other for other in others if not other.silent and abs(other.opened_at - burst.opened_at) < REACH]
        newer = [other for other in told if other.key.seq > own.seq and stale(other, now)]
        return newer, [other for other in reversed(told) if other.key.seq < own.seq]

    def _counts(
        self, older: Sequence[Burst], platform: Platform, shard: int, people: Bits, now: datetime
    ) -> Mapping[int, Bits]:
        """Back to the last that was told."""
        alive, more = people, [people]  # those for whom it speaks of more than so many
        for other in older:
            found, left = self._of(other, platform, shard, now)
            alive = alive & ~found.told
            if not alive.any():
                break
            hit: Bits = alive & left
            more.append(nobody())
            for n in range(len(more) - 1, 0, -1):
                more[n] = more[n] | (more[n - 1] & hit)
        exact = [bits & ~above for bits, above in zip(more, [*more[1:], nobody()], strict=True)]
        return {n: bits for n, bits in enumerate(exact, start=1) if bits.any()}

    def _of(self, other: Burst, platform: Platform, shard: int, now: datetime) -> tuple[Progress, Bits]:
        """How far it is in the shard, whatever tier people had then, and to whom it is still to be told, by itself or
        by a newer one: whoever has dealt with it since is told of it by none."""
        seal = self.seals.read(other.key, [shard]).get(shard)
        if seal is None:
            return NOTHING_SENT, nobody()
        windows = self.sent.read(other.key, platform, [shard]).values()
        found = progress([window for of in windows for window in of])
        left: Bits = seal.push & (found.collapsed | ~found.intended)
        return found, left & ~self.spared.read(other, [shard], now)[shard].never if left.any() else left
