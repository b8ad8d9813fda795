"""A page of 20 read from the store alone: what it costs the node, and how long its reader waits, by layout."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from notifier.adapters.cassandra import CassandraTimeline, Cluster, Reader
from notifier.adapters.system_clock import SystemClock
from notifier.domain.block import window_of
from notifier.domain.subject import Member
from notifier.testing.bench.cql.history import OF_BLOCKS, OF_MEMBERS, PEOPLE, fill, first_of_shard
from notifier.testing.bench.cql.node import Node, noded
from notifier.testing.bench.rounds import Figure, Spread, told
from notifier.testing.finding import quantile

LIMIT = 20
LAYOUTS = ("block", "member", "one_per_partition")
WINDOWS, WINDOWS_QUICK = 30, 3
READS, READS_QUICK = 2_000, 400
"""Of a layout in a round, of people at random."""
ROUNDS, ROUNDS_QUICK = 5, 3
WARMING = 2
"""Rounds that aren't counted."""
AT_ONCE = 16
"""While the node's time is taken: what it does beside reading is then a small part."""

_NEWEST = (
    f"SELECT opened_at, subject, seq, tier FROM one_per_partition WHERE member = ? AND inbox_window = ? LIMIT {LIMIT}"
)

Read = Callable[[Member], Awaitable[int]]
"""Somebody's newest; how many rows were found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    name: str
    first: int
    """The number of its first member."""
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    cost: float
    """Microseconds of the node for each page."""
    seconds: Sequence[float]
    """Of each page, alone."""
    found: float
    """Rows of a page, the mean."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    windows = WINDOWS_QUICK if quick else WINDOWS
    with noded(folder) as node:
        fill(node.cluster, windows, tell)
        tell("stopping and starting the node, so that pages come from its files")
        node.again()
        with closing(Cluster(node.cluster.access)) as cluster:
            tell("reading pages")
            found = asyncio.run(_measure(node, cluster, windows, quick=quick))
    return [figure for name, rounds in found.items() for figure in _figures(name, rounds, windows)]


async def _measure(node: Node, cluster: Cluster, windows: int, *, quick: bool) -> Mapping[str, Sequence[Round]]:
    """The layouts in turns."""
    found: dict[str, list[Round]] = {}
    random, reads = np.random.default_rng(2), READS_QUICK if quick else READS
    for number in range((ROUNDS_QUICK if quick else ROUNDS) + WARMING):
        for layout in _layouts(cluster, windows):
            who = [Member(layout.first + place) for place in random.integers(PEOPLE, size=reads).tolist()]
            one = await _round(node, layout.read, who)
            if number >= WARMING:
                found.setdefault(layout.name, []).append(one)
    return found


def _layouts(cluster: Cluster, windows: int) -> Sequence[Layout]:
    reader, clock = Reader(cluster), SystemClock()
    timeline = CassandraTimeline(reader, clock)

    async def ours(member: Member) -> int:
        return len(await timeline.rows(member, None, LIMIT))

    async def everybodys(member: Member) -> int:
        """Window by window, until there are enough."""
        found, newest = 0, window_of(clock.now())
        for window in range(newest, newest - windows, -1):
            found += len(await reader(_NEWEST, (member, window)))
            if found >= LIMIT:
                break
        return min(found, LIMIT)

    ways = ((OF_BLOCKS, ours), (OF_MEMBERS, ours), (OF_MEMBERS, everybodys))
    return [
        Layout(name=name, first=first_of_shard(shard), read=read)
        for name, (shard, read) in zip(LAYOUTS, ways, strict=True)
    ]


async def _round(node: Node, read: Read, who: Sequence[Member]) -> Round:
    await asyncio.to_thread(node.settle)
    seconds, busy = [await _timed(read, one) for one in who], node.processor()
    found: list[int] = []
    for at in range(0, len(who), AT_ONCE):
        found += await asyncio.gather(*map(read, who[at : at + AT_ONCE]))
    return Round(cost=(node.processor() - busy) / len(who) * 1e6, seconds=seconds, found=mean(found))


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
