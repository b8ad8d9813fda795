"""Measures reading a page of 20 from Cassandra, by layout: node CPU time and latency."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.cassandra.generated_history_and_bursts import InboxHistory
from benchmarks.cassandra.inbox_table_layouts import PEOPLE, READERS, Read, TableLayout, fill, layouts
from benchmarks.cassandra.measured_node import BenchNode, running_node
from benchmarks.costs_and_figures import Figure, Spread, unjudged
from notifier.adapters.cassandra import AsyncQueries, Cluster
from notifier.devkit.check.finding_and_quantiles import at_most, quantile
from notifier.domain.ids import Member

OURS, BASELINE = "inbox_rows", "member_rows"
LAYOUTS = (OURS, BASELINE, "one_per_partition")
RATIO, LIMIT = "newest_20_ratio", 2.5
FIGURES = (*(f"newest_20_{statistic}{{{name}}}" for name in LAYOUTS for statistic in ("us", "p99_ms")), RATIO)
WINDOWS, WINDOWS_QUICK = 30, 3
READS, READS_QUICK = 2_000, 400
"""Reads per layout and round, of random members."""
ROUNDS, ROUNDS_QUICK = 5, 3
WARM_UP_ROUNDS = 2
"""Rounds that are not counted."""
CONCURRENT_READS = 16
"""Concurrent reads while CPU time is measured. With fewer, the node's background work would be a larger part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRound:
    cost: float
    """Microseconds of the node's CPU time per page."""
    seconds: Sequence[float]
    """Latency of each page, read by a single reader."""
    rows: float
    """Mean number of rows per page."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    windows, history = WINDOWS_QUICK if quick else WINDOWS, InboxHistory.made(PEOPLE)
    with running_node(folder) as node:
        fill(node.cluster, history, windows, tell)
        tell("restarting the node, so that pages come from its files")
        node.restart()
        with closing(Cluster(node.cluster.access)) as cluster:
            tell("reading pages")
            table_layouts = layouts(cluster, AsyncQueries(cluster), history, windows)
            rounds_by_layout = asyncio.run(_measure(node, table_layouts, quick=quick))
    figures = [figure for name, rounds in rounds_by_layout.items() for figure in _figures(name, rounds, windows)]
    return [*figures, _ratio(rounds_by_layout[OURS], rounds_by_layout[BASELINE])]


async def _measure(
    node: BenchNode, layouts: Sequence[TableLayout], *, quick: bool
) -> Mapping[str, Sequence[PageRound]]:
    """Measure the layouts in turns."""
    rounds: dict[str, list[PageRound]] = {}
    random, reads = np.random.default_rng(2), READS_QUICK if quick else READS
    for number in range((ROUNDS_QUICK if quick else ROUNDS) + WARM_UP_ROUNDS):
        for layout in layouts:
            members = [Member(place) for place in random.integers(READERS, size=reads).tolist()]
            round_ = await _round(node, layout.read, members)
            if number >= WARM_UP_ROUNDS:
                rounds.setdefault(layout.name, []).append(round_)
    return rounds


async def _round(node: BenchNode, read: Read, members: Sequence[Member]) -> PageRound:
    await asyncio.to_thread(node.await_idle)
    seconds, busy = [await _timed(read, member) for member in members], node.processor()
    row_counts: list[int] = []
    for at in range(0, len(members), CONCURRENT_READS):
        pages = await asyncio.gather(*map(read, members[at : at + CONCURRENT_READS]))
        row_counts += map(len, pages)
    return PageRound(cost=(node.processor() - busy) / len(members) * 1e6, seconds=seconds, rows=mean(row_counts))


async def _timed(read: Read, member: Member) -> float:
    began = time.perf_counter()
    await read(member)
    return time.perf_counter() - began


def _figures(name: str, rounds: Sequence[PageRound], windows: int) -> list[Figure]:
    costs = Spread.of([round_.cost for round_ in rounds], "us")
    waits = Spread.of([quantile(round_.seconds, 0.99) * 1e3 for round_ in rounds], "ms")
    n = sum(len(round_.seconds) for round_ in rounds)
    detail = f"median; {mean(round_.rows for round_ in rounds):.1f} rows per page, from {windows} inbox windows"
    return [
        unjudged(f"newest_20_us{{{name}}}", costs, n, detail),
        unjudged(f"newest_20_p99_ms{{{name}}}", waits, n, detail),
    ]


def _ratio(ours: Sequence[PageRound], baseline: Sequence[PageRound]) -> Figure:
    """Judge the node's CPU time for a page of inbox rows, divided by that for a page of member rows."""
    mine, theirs = [round_.cost for round_ in ours], [round_.cost for round_ in baseline]
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    detail = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds; CPU time of the node per page"
    finding = at_most(RATIO, median(ratios), LIMIT, unit="ratio", n=len(ratios), detail=detail)
    return Figure(finding=finding, ours=Spread.of(mine, "us"), baseline=Spread.of(theirs, "us"))
