"""Our side of a round: the real delivery stage into inboxes as full as after a month, all of it in the files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fanout.delivery import DeliveryBed
from benchmarks.fanout.prefill import prefill
from benchmarks.peers.audience import PeerDensity, people
from benchmarks.settled_rounds import SettledFiles
from notifier.adapters.system_clock import SystemClock
from notifier.devkit.fixture.world import Members
from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import window_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What one side did in one round."""

    people: int
    seconds: float
    sealing: float = 0.0
    """Seconds for finding out who the people are. The peers get them as a list, for nothing."""

    @property
    def rate(self) -> float:
        return self.people / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSide:
    bed: DeliveryBed
    settling: SettledFiles

    def deliver(self, number: int) -> Delivered:
        """One burst, sealed before; until its last page is in its file."""
        burst, pieces = self.bed.burst(number)
        sealing = self.bed.seal(burst, pieces)
        cost = self.settling(lambda: self.bed.deliver(pieces))
        seals = self.bed.delivery.audience_snapshots.read(burst.key, range(self.bed.world.shards))
        reached = sum(count(seal.tiers[Tier.P1]) for seal in seals.values())
        return Delivered(people=reached, seconds=cost.seconds, sealing=sealing.seconds)

    def people(self, number: int) -> Members:
        """Whom that burst reached."""
        key = self.bed.world.subject(0)
        return people(self.bed.delivery.audience_snapshots.read(BurstKey(key, number), range(self.bed.world.shards)))


@contextmanager
def ours(folder: Path, density: PeerDensity, *, quick: bool) -> Iterator[ProductSide]:
    """In a folder of its own, which may be thrown away once this is left."""
    shards = range(density.size(quick=quick))
    prefill(folder, shards, window=window_of(SystemClock().now()))
    bed = DeliveryBed.make(folder, density.world(quick=quick))
    try:
        with SettledFiles.of(bed.files) as settling:
            yield ProductSide(bed=bed, settling=settling)
    finally:
        bed.files.close()
