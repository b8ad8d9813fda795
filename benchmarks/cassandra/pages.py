"""A page of 20 read from the store alone: what it costs the node, and how long its reader waits, by layout."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.cassandra.history import History
from benchmarks.cassandra.layouts import PEOPLE, READERS, Layout, Read, fill, layouts
from benchmarks.cassandra.node import Node, noded
from benchmarks.rounds import Figure, Spread, told
from notifier.adapters.cassandra import CassandraReader, Cluster
from notifier.devkit.check.finding import at_most, quantile
from notifier.domain.ids import Member

OURS, BASELINE = "inbox_rows", "member_rows"
LAYOUTS = (OURS, BASELINE, "one_per_partition")
RATIO, LIMIT = "newest_20_ratio", 2.5
FIGURES = (*(f"newest_20_{what}{{{name}}}" for name in LAYOUTS for what in ("us", "p99_ms")), RATIO)
WINDOWS, WINDOWS_QUICK = 30, 3
READS, READS_QUICK = 2_000, 400
"""Of a layout in a round, of people at random."""
ROUNDS, ROUNDS_QUICK = 5, 3
WARMING = 2
"""Rounds that aren't counted."""
AT_ONCE = 16
"""While the node's time is taken: what it does beside reading is then a small part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    cost: float
    """Microseconds of the node for each page."""
    seconds: Sequence[float]
    """Of each page, alone."""
    found: float
    """Rows of a page, the mean."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    windows, history = WINDOWS_QUICK if quick else WINDOWS, History.made(PEOPLE)
    with noded(folder) as node:
        fill(node.cluster, history, windows, tell)
        tell("stopping and starting the node, so that pages come from its files")
        node.again()
        with closing(Cluster(node.cluster.access)) as cluster:
            tell("reading pages")
            each = layouts(cluster, CassandraReader(cluster), history, windows)
            found = asyncio.run(_measure(node, each, quick=quick))
    figures = [figure for name, rounds in found.items() for figure in _figures(name, rounds, windows)]
    return [*figures, _ratio(found[OURS], found[BASELINE])]


async def _measure(node: Node, layouts: Sequence[Layout], *, quick: bool) -> Mapping[str, Sequence[Round]]:
    """The layouts in turns."""
    found: dict[str, list[Round]] = {}
    random, reads = np.random.default_rng(2), READS_QUICK if quick else READS
    for number in range((ROUNDS_QUICK if quick else ROUNDS) + WARMING):
        for layout in layouts:
            members = [Member(place) for place in random.integers(READERS, size=reads).tolist()]
            one = await _round(node, layout.read, members)
            if number >= WARMING:
                found.setdefault(layout.name, []).append(one)
    return found


async def _round(node: Node, read: Read, members: Sequence[Member]) -> Round:
    await asyncio.to_thread(node.settle)
    seconds, busy = [await _timed(read, member) for member in members], node.processor()
    found: list[int] = []
    for at in range(0, len(members), AT_ONCE):
        pages = await asyncio.gather(*map(read, members[at : at + AT_ONCE]))
        found += map(len, pages)
    return Round(cost=(node.processor() - busy) / len(members) * 1e6, seconds=seconds, found=mean(found))


async def _timed(read: Read, member: Member) -> float:
    began = time.perf_counter()
    await read(member)
    return time.perf_counter() - began


def _figures(name: str, rounds: Sequence[Round], windows: int) -> list[Figure]:
    costs = Spread.of([one.cost for one in rounds], "us")
    waits = Spread.of([quantile(one.seconds, 0.99) * 1e3 for one in rounds], "ms")
    n = sum(len(one.seconds) for one in rounds)
    detail = f"the median; {mean(one.found for one in rounds):.1f} rows a page, of {windows} inbox windows"
    return [
        told(f"newest_20_us{{{name}}}", costs, n, detail),
        told(f"newest_20_p99_ms{{{name}}}", waits, n, detail),
    ]


def _ratio(ours: Sequence[Round], baseline: Sequence[Round]) -> Figure:
    """Judge the node's time for a page of ours, divided by that for a page of member rows."""
    mine, theirs = [one.cost for one in ours], [one.cost for one in baseline]
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    detail = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds; the node's time for a page"
    finding = at_most(RATIO, median(ratios), LIMIT, unit="ratio", n=len(ratios), detail=detail)
    return Figure(finding=finding, ours=Spread.of(mine, "us"), baseline=Spread.of(theirs, "us"))
