"""Measures the width of a member range: writing a history, reading pages, reading from disk.

Each width has its own range numbers in the one table. Users, bursts and inbox windows are the same.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.cassandra.generated_history_and_bursts import InboxHistory, OpenedBurst, reaches
from benchmarks.cassandra.measured_node import BenchNode, page_out, running_node
from benchmarks.costs_and_figures import Figure, Spread, seconds, unjudged
from notifier.adapters.cassandra import CassandraInbox, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.stores.inbox_rows import MAX_INT64, MAX_ROWS_PER_QUERY
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import window_of
from notifier.domain.ids import Member

PEOPLE = SHARD_MEMBERS
"""A whole shard, because the product cuts the rows of a shard together, and these share messages."""
SUBJECTS_WITH_BURSTS = 32
"""Subjects per group that have bursts. With all of them the benchmark would take hours."""
READER_COUNT = 128
"""Readers: members who follow only subjects that have bursts."""
WINDOWS, WINDOWS_QUICK = 30, 4
WARM_UP_WINDOWS = 2
"""Windows that are written while the node is cold."""
READS, READS_QUICK = 2_000, 300
DISK_READS, DISK_READS_QUICK = 60, 15
LIMIT = 20
THREADS = 8

_READ = load_statement("read_inbox_rows_of_several_subjects")


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWidth:
    members: int
    first: int
    """Number of its first range."""
    write_us: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    """Rows per 1,000 users reached."""
    newest_us: list[float] = field(default_factory=list)
    whole_us: list[float] = field(default_factory=list)
    disk_ms: list[float] = field(default_factory=list)
    rows_per_reader: list[float] = field(default_factory=list)
    """Number of all rows of a reader."""


WIDTHS = (1_024, 4_096, 8_192, 16_384)
FIGURES = tuple(
    f"width_{measure}{{{members}}}"
    for members in WIDTHS
    for measure in ("write_us", "newest_20_us", "30_windows_us", "disk_ms")
)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    windows = WINDOWS_QUICK if quick else WINDOWS
    readers = range(0, PEOPLE, PEOPLE // READER_COUNT)
    history = InboxHistory.made(PEOPLE, most=SUBJECTS_WITH_BURSTS, readers=readers)
    widths = [RangeWidth(members=members, first=number * PEOPLE) for number, members in enumerate(WIDTHS)]
    with running_node(folder) as node:
        _fill(node, history, widths, windows, tell)
        tell("restarting the node, so that pages come from its files")
        node.restart()
        newest = window_of(SystemClock().now())
        reading = WidthReading(
            node=node,
            history=history,
            members=_sample(readers, READS_QUICK if quick else READS),
            windows=range(newest, newest - windows, -1),
            from_disk=DISK_READS_QUICK if quick else DISK_READS,
        )
        for number in range(3):
            tell(f"reading pages, round {number + 1} of 3")
            for width in widths:
                reading.round(width, counted=number > 0)
    return [figure for width in widths for figure in _figures(width, windows)]


def page(
    cluster: Cluster,
    width: RangeWidth,
    member: int,
    subjects: Sequence[str],
    *,
    windows: Sequence[int],
    limit: int | None,
) -> int:
    """Read a member's rows of these windows, newest first, up to the limit. Return their number."""
    number, place = divmod(member, width.members)
    count = 0
    for window_group in _growing(windows):
        questions = [(width.first + number, window, subjects, MAX_INT64, MAX_ROWS_PER_QUERY) for window in window_group]
        for rows in cluster.query_each(_READ, questions):
            count += sum(reaches(row.members, place, width.members) for row in rows)
        if limit is not None and count >= limit:
            break
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthReading:
    node: BenchNode
    history: InboxHistory
    members: Sequence[Member]
    windows: Sequence[int]
    from_disk: int
    """Pages per round that are read from disk."""

    def round(self, width: RangeWidth, *, counted: bool) -> None:
        members_ = self.members[: len(self.members) // 4]
        newest, _ = self._read(width, self.members, LIMIT)
        whole, row_counts = self._read(width, members_, None)
        disk = [self._from_disk(width, member) for member in self.members[: self.from_disk]]
        if counted:
            width.newest_us.append(newest / len(self.members) * 1e6)
            width.whole_us.append(whole / len(members_) * 1e6)
            width.disk_ms.append(median(disk) * 1e3)
            width.rows_per_reader.append(mean(row_counts))

    def _read(self, width: RangeWidth, members: Sequence[Member], limit: int | None) -> tuple[float, Sequence[int]]:
        """Return the node's CPU seconds and the rows found.

        Several threads read, so that background work is a small part.
        """
        self.node.await_idle()
        busy = self.node.processor()
        with ThreadPoolExecutor(THREADS) as threads:
            row_counts = list(threads.map(lambda member: self._page(width, member, limit), members))
        return self.node.processor() - busy, row_counts

    def _from_disk(self, width: RangeWidth, member: Member) -> float:
        page_out(self.node.engine)
        return seconds(partial(self._page, width, member, LIMIT))

    def _page(self, width: RangeWidth, member: Member, limit: int | None) -> int:
        subjects = list(map(str, self.history.subjects(member)))
        return page(self.node.cluster, width, member, subjects, windows=self.windows, limit=limit)


def _sample(readers: Sequence[int], reads: int) -> Sequence[Member]:
    return [Member(member) for member in np.random.default_rng(3).choice(readers, size=reads).tolist()]


def _growing(windows: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the first window alone, then more and more windows at once, as the product does."""
    begin, many = 0, 1
    while begin < len(windows):
        yield windows[begin : begin + many]
        begin, many = begin + many, 2 * many


def _fill(
    node: BenchNode, history: InboxHistory, widths: Sequence[RangeWidth], windows: int, tell: Callable[[str], None]
) -> None:
    """Write the history window by window, with the widths in turns."""
    inbox = CassandraInbox(node.cluster, SystemClock())
    for number, opened in enumerate(history.windows(SystemClock().now(), windows)):
        tell(f"writing inbox window {number + 1} of {windows}")
        for width in widths:
            _write(node, inbox, opened, width, counted=number >= WARM_UP_WINDOWS)


def _write(
    node: BenchNode, inbox: CassandraInbox, opened: Sequence[OpenedBurst], width: RangeWidth, *, counted: bool
) -> None:
    rows = [rows for burst in opened for rows in burst.rows(width.members, width.first)]
    thousands = sum(burst.deliveries for burst in opened) / 1_000
    node.await_idle()
    busy = node.processor()
    inbox.write(rows)
    node.await_idle()  # flushes and compactions of these rows are part of their cost
    if counted:
        width.write_us.append((node.processor() - busy) / thousands * 1e6)
        width.rows.append(sum(group.row_count for group in rows) / thousands)


def _figures(width: RangeWidth, windows: int) -> list[Figure]:
    whole = f"CPU time of the node for all {mean(width.rows_per_reader):,.0f} rows of a user in {windows} windows"
    figures = (
        (
            "write_us",
            width.write_us,
            "us",
            f"CPU time of the node per 1,000 users reached, in {mean(width.rows):.0f} rows",
        ),
        ("newest_20_us", width.newest_us, "us", "CPU time of the node per newest page"),
        ("30_windows_us", width.whole_us, "us", whole),
        ("disk_ms", width.disk_ms, "ms", "time for a newest page without any of it in memory"),
    )
    return [
        unjudged(f"width_{name}{{{width.members}}}", Spread.of(values, unit), len(values), text)
        for name, values, unit, text in figures
    ]
