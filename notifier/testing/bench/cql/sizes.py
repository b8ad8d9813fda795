"""What a block's size and its threshold cost: bursts of every density written, pages read, and read from the disk.

Each variant has blocks of its own in the one table; people, bursts and windows are the same.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from cassandra.query import BatchStatement, BatchType

from notifier.adapters.cassandra import Cluster
from notifier.adapters.system_clock import SystemClock
from notifier.codec.moments import to_ms
from notifier.domain.block import window_of
from notifier.testing.bench.cql.bursts import SUBJECT
from notifier.testing.bench.cql.history import openings
from notifier.testing.bench.cql.node import Node, noded
from notifier.testing.bench.cql.paging import page_out
from notifier.testing.bench.cql.writers import LIFE, answered
from notifier.testing.bench.rounds import Figure, Spread, seconds, told

PEOPLE = 65_536
SHARES = (0.25, 0.06, 0.015, 0.004)
"""Of the people, burst by burst in turns: from a celebrity that everybody follows to one of a small town."""
WINDOWS, WINDOWS_QUICK = 30, 4
BURSTS = 40
"""In each inbox window."""
UNCOUNTED = 2
"""Windows that are written while the node is cold."""
READS, READS_QUICK = 2_000, 300
FROM_DISK, FROM_DISK_QUICK = 60, 15
LIMIT = 20
AT_ONCE, READERS = 64, 8
TOGETHER = 9
"""Block rows in a message: of 512 bytes each, no more stay below 5 KiB."""
OF_ONE_BLOCK = 1_000

_SHARED = (
    "INSERT INTO inbox (block, inbox_window, slot, opened_at, subject, seq, tier, members) "
    "VALUES (?, ?, ?, ?, ?, ?, 'p1', ?) USING TTL ?"
)
_OWN = (
    "INSERT INTO inbox (block, inbox_window, slot, opened_at, subject, seq, tier) "
    "VALUES (?, ?, ?, ?, ?, ?, 'p1') USING TTL ?"
)
_READ = "SELECT opened_at, seq, members FROM inbox WHERE block = ? AND inbox_window = ? AND slot = ?"

Flags = npt.NDArray[np.bool_]
Message = tuple[str, Sequence[tuple[object, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    members: int
    """Of a block; also the slot of its shared rows."""
    threshold: int
    first: int
    """The number of its first block."""
    write_us: list[float] = field(default_factory=list)
    newest_us: list[float] = field(default_factory=list)
    whole_us: list[float] = field(default_factory=list)
    disk_ms: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.members},{self.threshold}"

    def messages(self, flags: Flags, window: int, opened_at: int, seq: int) -> Iterator[Message]:
        """A burst's rows: one for a block that has enough of them, else one for each member."""
        by_block = flags.reshape(-1, self.members)
        counts = by_block.sum(axis=1)
        tail = (opened_at, str(SUBJECT), seq)
        shared = [
            (self.first + block, window, self.members, *tail, np.packbits(by_block[block]).tobytes(), LIFE)
            for block in np.flatnonzero(counts >= self.threshold).tolist()
        ]
        for at in range(0, len(shared), TOGETHER):
            yield _SHARED, shared[at : at + TOGETHER]
        for block in np.flatnonzero((counts > 0) & (counts < self.threshold)).tolist():
            slots = np.flatnonzero(by_block[block]).tolist()
            yield _OWN, [(self.first + block, window, slot, *tail, LIFE) for slot in slots]


VARIANTS = ((256, 32), (1_024, 8), (1_024, 32), (1_024, 128), (4_096, 32), (4_096, 128))
"""Members of a block, and the least of them that share a row."""
FIGURES = tuple(
    f"{what}{{{members},{threshold}}}"
    for members, threshold in VARIANTS
    for what in ("size_write_us", "size_newest_20_us", "size_30_windows_us", "size_disk_ms")
)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    windows = WINDOWS_QUICK if quick else WINDOWS
    variants = [
        Variant(members=members, threshold=threshold, first=number * PEOPLE)
        for number, (members, threshold) in enumerate(VARIANTS)
    ]
    with noded(folder) as node:
        _fill(node, variants, windows, tell)
        tell("stopping and starting the node, so that pages come from its files")
        node.again()
        newest = window_of(SystemClock().now())
        for number in range(3):
            tell(f"reading pages, round {number + 1} of 3")
            for variant in variants:
                _read(node, variant, range(newest, newest - windows, -1), quick=quick, counted=number > 0)
    return [figure for variant in variants for figure in _figures(variant, windows)]


def _fill(node: Node, variants: Sequence[Variant], windows: int, tell: Callable[[str], None]) -> None:
    """Window by window, the variants in turns."""
    random, opened = np.random.default_rng(1), list(openings(SystemClock().now(), windows, BURSTS))
    for number in range(windows):
        tell(f"writing inbox window {number + 1} of {windows}")
        some = [
            (random.random(PEOPLE) < SHARES[seq % len(SHARES)], opened[seq], seq)
            for seq in range(number * BURSTS, (number + 1) * BURSTS)
        ]
        people = sum(int(flags.sum()) for flags, *_ in some)
        for variant in variants:
            made = [m for f, at, seq in some for m in variant.messages(f, window_of(at), to_ms(at), seq)]
            took = _processor(node, partial(send, node.cluster, made))
            if number >= UNCOUNTED:
                variant.write_us.append(took / people * 1e9)


def send(cluster: Cluster, messages: Sequence[Message]) -> None:
    session = cluster.session()
    answered((session.execute_async(_batch(cluster, *one)) for one in messages), AT_ONCE)


def _batch(cluster: Cluster, statement: str, rows: Sequence[tuple[object, ...]]) -> BatchStatement:
    batch, prepared = BatchStatement(batch_type=BatchType.UNLOGGED), cluster.prepared(statement)
    for row in rows:
        batch.add(prepared, row)
    return batch


def _read(node: Node, variant: Variant, windows: range, *, quick: bool, counted: bool) -> None:
    random = np.random.default_rng(2)
    who = random.integers(PEOPLE, size=READS_QUICK if quick else READS).tolist()
    few = who[: FROM_DISK_QUICK if quick else FROM_DISK]
    some = who[: len(who) // 4]
    newest = _reading(node, who, lambda one: page(node.cluster, variant, one, windows, LIMIT))
    whole = _reading(node, some, lambda one: page(node.cluster, variant, one, windows, None))
    disk = [_from_disk(node, partial(page, node.cluster, variant, one, windows, LIMIT)) for one in few]
    if counted:
        variant.newest_us.append(newest / len(who) * 1e6)
        variant.whole_us.append(whole / len(some) * 1e6)
        variant.disk_ms.append(median(disk) * 1e3)


def page(cluster: Cluster, variant: Variant, member: int, windows: range, limit: int | None) -> int:
    """Somebody's rows of so many windows, newest first, until there are enough; how many."""
    block, slot = divmod(member, variant.members)
    found = 0
    for window in windows:
        own, shared = cluster.ask_each(_READ, [(variant.first + block, window, at) for at in (slot, variant.members)])
        found += len(own) + sum(row.members[slot >> 3] >> (7 - (slot & 7)) & 1 for row in shared)
        if limit is not None and found >= limit:
            break
    return found


def _reading(node: Node, who: Sequence[int], read: Callable[[int], object]) -> float:
    """Seconds of the node; several read, so that what it does while it waits is little."""
    node.settle()
    busy = node.processor()
    with ThreadPoolExecutor(READERS) as readers:
        list(readers.map(read, who))
    return node.processor() - busy


def _from_disk(node: Node, read: Callable[[], object]) -> float:
    page_out(node.engine)
    return seconds(read)


def _processor(node: Node, work: Callable[[], object]) -> float:
    """Seconds of the node, with what the work left it to do."""
    node.settle()
    busy = node.processor()
    work()
    node.settle()
    return node.processor() - busy


def _figures(variant: Variant, windows: int) -> list[Figure]:
    figures = (
        ("size_write_us", variant.write_us, "us", "of the node for 1,000 people who are reached"),
        ("size_newest_20_us", variant.newest_us, "us", "of the node for a newest page"),
        ("size_30_windows_us", variant.whole_us, "us", f"of the node for all that somebody has in {windows} windows"),
        ("size_disk_ms", variant.disk_ms, "ms", "for a newest page of which no byte is in memory"),
    )
    return [
        told(f"{name}{{{variant.name}}}", Spread.of(values, unit), len(values), text)
        for name, values, unit, text in figures
    ]
