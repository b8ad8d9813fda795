"""How fast rows are written: against the leanest writer, against the driver as everybody has it, and by density."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from notifier.adapters.cassandra import CassandraInbox
from notifier.adapters.cassandra.bulk import Bulk
from notifier.adapters.system_clock import SystemClock
from notifier.domain.block import Rows
from notifier.testing.bench.cql.bursts import NO_BLOCKS, Bursts, first
from notifier.testing.bench.cql.frames import Frames
from notifier.testing.bench.cql.node import Node, noded
from notifier.testing.bench.cql.turns import Rounds, Turn, Writer, cheaper, faster, turns
from notifier.testing.bench.cql.writers import Batches, Lean, Ours, Singles, Stock
from notifier.testing.bench.rounds import Figure, Spread
from notifier.testing.finding import Finding
from workers.garbage import seldom

RATIO, CPU_RATIO = 0.75, 0.85
SINGLE, BATCH = {25: 15.0, 5: 10.0}, {25: 4.0, 5: 2.5}
"""By percent of a block."""
DENSITIES = (1, 5, 25, 100)
WINDOW = 128
"""Messages of the leanest writer on their way: with 32 the node waits for it, with 512 it isn't faster."""
APART = timedelta(hours=12)
"""Between bursts that the inboxes hold already: six an inbox window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    block_shards: int
    member_shards: int
    filled: int
    """Bursts that the inboxes hold before."""
    rounds: int
    singles: int
    batched: int
    """Rows of a turn of the driver's own ways."""


QUICK = Size(block_shards=256, member_shards=8, filled=4, rounds=4, singles=4_000, batched=12_000)
FULL = Size(block_shards=1024, member_shards=16, filled=12, rounds=8, singles=10_000, batched=40_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    node: Node
    inbox: CassandraInbox
    lean: Lean
    stock: Stock
    clock: SystemClock
    size: Size

    def fill(self, bursts: Bursts) -> None:
        for number in range(self.size.filled, 0, -1):
            self.inbox.write(bursts.rows(self.clock.now() - number * APART))

    def against(self, bursts: Bursts, *others: tuple[str, Writer, int]) -> dict[str, Sequence[Turn]]:
        """Ours and the leanest with all rows of a burst each, the others with as many as they are given."""
        whole: Rounds = lambda _: bursts.rows(self.clock.now())  # noqa: E731
        sides: dict[str, tuple[Writer, Rounds]] = {"ours": (Ours(self.inbox), whole), "lean": (self.lean, whole)}
        for name, writer, members in others:
            sides[name] = (writer, partial(self._some, bursts, members))
        return dict(turns(self.node, sides, self.size.rounds))

    def _some(self, bursts: Bursts, members: int, _: int) -> Sequence[Rows]:
        return first(bursts.rows(self.clock.now()), members)

    def with_stock(self, bursts: Bursts) -> dict[str, Sequence[Turn]]:
        singles, batches = Singles(self.stock), Batches(self.stock)
        return self.against(bursts, ("single", singles, self.size.singles), ("batch", batches, self.size.batched))


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    size = QUICK if quick else FULL
    with _bench(folder, size) as bench:
        blocks, shards = range(size.block_shards), range(size.member_shards)
        figures = _block_rows(bench, Bursts(shards=blocks, share=0.05), tell)
        for percent in (25, 5):
            members = Bursts(shards=shards, share=percent / 100, threshold=NO_BLOCKS)
            figures += _member_rows(bench, members, percent, tell)
        tell("deliveries by density")
        return [*figures, *(_deliveries(bench, percent) for percent in DENSITIES)]


@contextmanager
def _bench(folder: Path, size: Size) -> Iterator[Bench]:
    clock = SystemClock()
    # The node warns of every batch of 50 that it is of too many partitions: what everybody does all the same.
    logging.getLogger("cassandra").setLevel(logging.ERROR)
    seldom()  # as workers do
    with noded(folder) as node:
        access, bulk = node.cluster.access, Bulk(node.cluster)
        with closing(Stock(access)) as stock, closing(Frames(access.hosts[0], access.port, WINDOW)) as frames:
            yield Bench(
                node=node,
                inbox=CassandraInbox(node.cluster, clock, bulk),
                lean=Lean(frames, bulk.prepared()),
                stock=stock,
                clock=clock,
                size=size,
            )


def _block_rows(bench: Bench, bursts: Bursts, tell: Callable[[str], None]) -> list[Figure]:
    tell("filling inboxes with block rows")
    bench.fill(bursts)
    tell("block rows, ours and the leanest writer's")
    found = bench.against(bursts)
    return _ratios("block", found)


def _member_rows(bench: Bench, bursts: Bursts, percent: int, tell: Callable[[str], None]) -> list[Figure]:
    tell(f"filling inboxes with rows of {percent} % of the members")
    bench.fill(bursts)
    tell("member rows, ours, the leanest writer's and the driver's own")
    found, at = bench.with_stock(bursts), "" if percent == 25 else f"{{{percent}%}}"
    return [
        *(_ratios("member", found) if percent == 25 else ()),
        faster(f"cql_vs_stock_single{at}", found["ours"], found["single"], SINGLE[percent]),
        faster(f"cql_vs_stock_batch{at}", found["ours"], found["batch"], BATCH[percent]),
    ]


def _ratios(kind: str, found: dict[str, Sequence[Turn]]) -> list[Figure]:
    return [
        faster(f"cql_ratio{{{kind}}}", found["ours"], found["lean"], RATIO),
        cheaper(f"cql_cpu_ratio{{{kind}}}", found["ours"], found["lean"], CPU_RATIO),
    ]


def _deliveries(bench: Bench, percent: int) -> Figure:
    """People reached in a second, by whichever rows the threshold makes of them."""
    shards = bench.size.member_shards * (4 if percent == 1 else 16)
    bursts = Bursts(shards=range(shards), share=percent / 100)
    sides: dict[str, tuple[Writer, Rounds]] = {"ours": (Ours(bench.inbox), lambda _: bursts.rows(bench.clock.now()))}
    found = turns(bench.node, sides, bench.size.rounds)["ours"]
    spread = Spread.of([turn.deliveries / turn.seconds for turn in found], "1/s")
    rows = sum(turn.rows for turn in found) / sum(turn.deliveries for turn in found)
    finding = Finding(
        name=f"deliveries_per_s{{{percent}%}}",
        ok=True,
        value=round(spread.median),
        unit="1/s",
        n=len(found),
        detail=f"the median; {rows:.4f} rows for each person",
    )
    return Figure(finding=finding, ours=spread)
