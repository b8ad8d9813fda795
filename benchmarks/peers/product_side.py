"""Our side of a round: the delivery stage on filled inboxes, until files are complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.emptied_sqlite_logs import SettledFiles
from benchmarks.fanout.prefill_inboxes import prefill
from benchmarks.fanout.row_and_snapshot_writes import DeliveryBed
from benchmarks.peers.audience import PeerDensity, people
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.devkit.fixture.world import Members
from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Result of one side in one round."""

    people: int
    seconds: float
    snapshot_seconds: float = 0.0
    """Seconds for the audience snapshots. The peers get the list of users for free."""

    @property
    def rate(self) -> float:
        return self.people / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSide:
    bed: DeliveryBed
    settling: SettledFiles

    def deliver(self, number: int) -> Delivered:
        """Deliver one burst, whose snapshots were written before. The time ends when the last page is in its file."""
        burst, pieces = self.bed.burst(number)
        snapshot_seconds = self.bed.write_snapshots(burst, pieces)
        cost = self.settling(lambda: self.bed.deliver(pieces))
        snapshots = self.bed.delivery.audience_snapshots.read(burst.key, range(self.bed.world.shards))
        reached = sum(count(snapshot.tiers[Tier.P1]) for snapshot in snapshots.values())
        return Delivered(people=reached, seconds=cost.seconds, snapshot_seconds=snapshot_seconds.seconds)

    def people(self, number: int) -> Members:
        """Return the members that this burst reached."""
        key = self.bed.world.subject(0)
        return people(self.bed.delivery.audience_snapshots.read(BurstKey(key, number), range(self.bed.world.shards)))


@contextmanager
def ours(folder: Path, density: PeerDensity, *, quick: bool) -> Iterator[ProductSide]:
    """Yield our side in a new folder, which may be deleted afterwards."""
    shards = range(density.size(quick=quick))
    prefill(folder, shards, window=window_of(SystemClock().now()))
    bed = DeliveryBed.make(folder, density.world(quick=quick))
    try:
        with SettledFiles.of(bed.files) as settling:
            yield ProductSide(bed=bed, settling=settling)
    finally:
        bed.files.close()
