"""Measures writing inbox rows, by density, against the leanest writer and the stock driver."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from benchmarks.cassandra.generated_history_and_bursts import SyntheticBursts, first
from benchmarks.cassandra.lean_cql_client import FrameConnection
from benchmarks.cassandra.measured_node import BenchNode, running_node
from benchmarks.cassandra.writers import Batches, DriverDefaults, LeanestWriter, ProductWriter, Singles
from benchmarks.cassandra.writers_in_turns import Rounds, Turn, Writer, cheaper, faster, turns
from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.density_worlds import shown
from notifier.adapters.cassandra import CassandraInbox
from notifier.adapters.cassandra.bulk.writer import BulkWriter
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.devkit.check.finding_and_quantiles import Finding
from notifier.domain.audience.inbox_rows import InboxRows
from workers.gc_and_watchdogs import make_gc_rare

DENSITIES = (0.1, 0.5, 1, 2, 5, 25)
"""Percentages of a range that a burst reaches."""
RATIO, CPU_RATIO = 0.75, 0.85
STOCK: Mapping[float, Mapping[str, float]] = {
    0.5: {"single": 10.0, "batch": 2.5},
    5: {"single": 10.0, "batch": 2.5},
    25: {"single": 15.0, "batch": 4.0},
}
"""Densities at which the stock driver is measured. The values are the required ratios of users reached per second, ours
to those of its single statements and of its batches."""
WINDOW = 128
"""Messages of the leanest writer in flight: with 32 the node waits for the writer, with 512 it isn't faster."""
BURST_INTERVAL = timedelta(hours=12)
"""Interval of the bursts that are in the inboxes before the measurement: six per inbox window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    shards: int
    filled: int
    """Bursts that the inboxes hold at the start."""
    rounds: int
    singles: int
    batched: int
    """Deliveries per turn of the driver's own statements and batches."""


QUICK = Size(shards=512, filled=6, rounds=4, singles=4_000, batched=12_000)
FULL = Size(shards=1_024, filled=12, rounds=8, singles=10_000, batched=40_000)


def figures_at(percent: float) -> tuple[str, ...]:
    """Return the names of the figures of one density."""
    at = f"{{{shown(percent)}}}"
    stock = [f"cql_vs_stock_{way}{at}" for way in STOCK.get(percent, {})]
    return f"fanout_ratio_cql{at}", f"fanout_cpu_ratio_cql{at}", f"deliveries_per_s{at}", *stock


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBench:
    node: BenchNode
    inbox: CassandraInbox
    lean: LeanestWriter
    stock: DriverDefaults
    clock: SystemClock
    size: Size

    def fill(self) -> None:
        """Write bursts of every density in turns, so that the inboxes are not empty."""
        bursts = [self.bursts(percent) for percent in DENSITIES]
        for number in range(self.size.filled, 0, -1):
            self.inbox.write(bursts[number % len(bursts)].rows(self.clock.now() - number * BURST_INTERVAL))

    def bursts(self, percent: float) -> SyntheticBursts:
        return SyntheticBursts(shards=range(self.size.shards), share=percent / 100)

    def figures(self, percent: float) -> list[Figure]:
        """Measure one density.

        Ours and the leanest writer write all rows of a burst, the stock driver only its share.
        """
        ratio, cpu_ratio, deliveries, *stock = figures_at(percent)
        bursts = self.bursts(percent)
        whole: Rounds = lambda _: bursts.rows(self.clock.now())  # noqa: E731
        sides: dict[str, tuple[Writer, Rounds]] = {
            "ours": (ProductWriter(self.inbox), whole),
            "lean": (self.lean, whole),
        }
        if stock:
            sides["single"] = Singles(self.stock), partial(self._first_rows, bursts, self.size.singles)
            sides["batch"] = Batches(self.stock), partial(self._first_rows, bursts, self.size.batched)
        turns_by_writer = turns(self.node, sides, self.size.rounds)
        ours = turns_by_writer["ours"]
        return [
            faster(ratio, ours, turns_by_writer["lean"], RATIO),
            cheaper(cpu_ratio, ours, turns_by_writer["lean"], CPU_RATIO),
            _rate(deliveries, ours),
            *(
                faster(name, ours, turns_by_writer[way], limit)
                for name, (way, limit) in zip(stock, STOCK.get(percent, {}).items(), strict=True)
            ),
        ]

    def _first_rows(self, bursts: SyntheticBursts, deliveries: int, _: int) -> Sequence[InboxRows]:
        return first(bursts.rows(self.clock.now()), deliveries)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    figures: list[Figure] = []
    with _bench(folder, QUICK if quick else FULL) as bench:
        tell("filling inboxes")
        bench.fill()
        for percent in DENSITIES:
            tell(f"writing rows that reach {shown(percent)} of a range")
            figures += bench.figures(percent)
    return figures


@contextmanager
def _bench(folder: Path, size: Size) -> Iterator[RowBench]:
    clock = SystemClock()
    # The node warns about every batch of 50 that it has too many partitions. It is what most applications do.
    logging.getLogger("cassandra").setLevel(logging.ERROR)
    make_gc_rare()  # fewer garbage collections, as in workers
    with running_node(folder) as node:
        access, bulk = node.cluster.access, BulkWriter(node.cluster)
        with (
            closing(DriverDefaults(access)) as stock,
            closing(FrameConnection(access.hosts[0], access.port, WINDOW)) as frames,
        ):
            yield RowBench(
                node=node,
                inbox=CassandraInbox(node.cluster, clock, bulk),
                lean=LeanestWriter(frames, bulk.query_id()),
                stock=stock,
                clock=clock,
                size=size,
            )


def _rate(name: str, turns: Sequence[Turn]) -> Figure:
    """Report how many users are reached per second, and by how many rows."""
    spread = Spread.of([turn.rate for turn in turns], "1/s")
    rows = sum(turn.rows for turn in turns) / sum(turn.deliveries for turn in turns)
    detail = f"median; {rows:.4f} rows per user"
    finding = Finding(name=name, ok=True, value=round(spread.median), unit="1/s", n=len(turns), detail=detail)
    return Figure(finding=finding, ours=spread)
