"""Inbox reads of members who follow many subjects, against a session with rows in memory."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from notifier.adapters.cassandra.driver.async_queries import MAX_IN_FLIGHT, MAX_IN_FLIGHT_PER_CALL, AsyncQueries
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.inbox_rows import (
    MAX_ROWS_PER_QUERY,
    SUBJECTS_PER_QUERY,
    InboxRowQuery,
    InboxRowReader,
)
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.ids import Member

MEMBER, MEMBER_OFFSET = Member(5), b"\x05\x00"
FIRST_OPENED = to_ms(datetime(2026, 1, 5, tzinfo=UTC))
MORE_THAN_A_QUERY = MAX_ROWS_PER_QUERY // SUBJECTS_PER_QUERY // len(TIERS) + 1
"""Fewest bursts per subject, in three tiers each, whose rows no longer fit into one query."""


@dataclass
class FakeFuture:
    """The used part of the driver's future; the event loop answers it once the caller waits."""

    on_answer: Callable[[], None]
    rows: list[Any]
    has_more_pages = False

    def add_callbacks(
        self, page: Callable[..., None], failed: Callable[..., None], args: tuple[int], errback_args: tuple[int]
    ) -> None:
        asyncio.get_running_loop().call_soon(self._answer, page, args)

    def clear_callbacks(self) -> None:
        return

    def _answer(self, page: Callable[..., None], args: tuple[int]) -> None:
        self.on_answer()
        page(self.rows, *args)


@dataclass
class FakeCluster:
    """One inbox window of a range: its rows by subject, each newest first."""

    subjects: dict[str, list[Any]]
    in_flight: int = 0
    most_in_flight: int = 0
    """Maximum number of concurrent queries so far."""
    rows_read: int = 0
    """Number of rows returned."""
    statements: list[str] = field(default_factory=list)

    def session(self) -> "FakeCluster":
        return self

    def cached_statement(self, statement: str) -> str:
        return statement

    def execute_async(self, statement: str, values: tuple[Any, ...]) -> FakeFuture:
        self.statements.append(statement)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        rows = self._rows(*values)
        self.rows_read += len(rows)
        return FakeFuture(self._end_query, rows)

    def _rows(self, member_range: int, window: int, names: list[str] | str, *bounds: int) -> list[Any]:
        *start, limit = bounds
        several = sorted(names) if isinstance(names, list) else [names]
        rows = (row for name in several for row in self.subjects.get(name, ()))
        return list(islice((row for row in rows if [row.opened_at, row.seq][: len(start)] <= start), limit))

    def _end_query(self) -> None:
        self.in_flight -= 1


def filled_cluster(subjects: int, bursts: int, members: bytes = MEMBER_OFFSET) -> FakeCluster:
    """Return a cluster whose subjects opened bursts in turn, each burst with a row in every tier."""

    def row(subject: int, seq: int, tier: str) -> Any:
        at = FIRST_OPENED + seq * subjects + subject
        return SimpleNamespace(subject=f"mention:s{subject:05}", opened_at=at, seq=seq, tier=tier, members=members)

    numbers = range(bursts, 0, -1)
    return FakeCluster(
        {
            f"mention:s{subject:05}": [row(subject, seq, tier) for seq in numbers for tier in TIERS]
            for subject in range(subjects)
        }
    )


def newest(cluster: FakeCluster, limit: int) -> list[tuple[int, str, int]]:
    rows = [(row.opened_at, row.subject, row.seq) for of_subject in cluster.subjects.values() for row in of_subject]
    return sorted(rows, reverse=True)[:limit]


def read_rows(cluster: FakeCluster, limit: int = 20) -> Sequence[InboxRow]:
    async_queries = AsyncQueries(cast(Cluster, cluster), deadline=timedelta(minutes=1))
    query = InboxRowQuery(member=MEMBER, subjects=[*cluster.subjects], position=None, limit=limit)
    return asyncio.run(InboxRowReader(async_queries=async_queries).rows(query, range(1)))


def positions(rows: Sequence[InboxRow]) -> list[tuple[int, str, int]]:
    return [(to_ms(row.opened_at), str(row.burst.subject), row.burst.seq) for row in rows]


@pytest.mark.parametrize("subjects", [SUBJECTS_PER_QUERY, MAX_IN_FLIGHT + SUBJECTS_PER_QUERY])
def test_busy_subjects_are_read_with_limited_concurrency(subjects: int) -> None:
    cluster = filled_cluster(subjects, MORE_THAN_A_QUERY)
    assert positions(read_rows(cluster)) == newest(cluster, 20)
    assert cluster.most_in_flight <= MAX_IN_FLIGHT_PER_CALL


def test_quiet_subjects_are_queried_in_groups() -> None:
    cluster = filled_cluster(3 * SUBJECTS_PER_QUERY, 1)
    assert positions(read_rows(cluster)) == newest(cluster, 20)
    assert len(cluster.statements) == 3


def test_single_subject_is_read_only_as_far_as_needed() -> None:
    cluster = filled_cluster(1, 2 * MAX_ROWS_PER_QUERY)
    assert positions(read_rows(cluster)) == newest(cluster, 20)
    assert cluster.rows_read < MAX_ROWS_PER_QUERY


@pytest.mark.parametrize("bursts", [21, 22, 200, 2 * MAX_ROWS_PER_QUERY])
def test_every_row_is_read_once_wherever_pages_end(bursts: int) -> None:
    cluster = filled_cluster(1, bursts)
    result = read_rows(cluster, limit=10 * MAX_ROWS_PER_QUERY)
    assert len({(row.burst, row.tier) for row in result}) == len(result) == len(TIERS) * bursts
    assert positions(result) == newest(cluster, 10 * MAX_ROWS_PER_QUERY)


def test_rows_without_the_member_are_read_to_their_end() -> None:
    cluster = filled_cluster(2, 2 * MAX_ROWS_PER_QUERY, members=b"\x06\x00")
    assert read_rows(cluster) == []
    assert cluster.rows_read >= 2 * 2 * MAX_ROWS_PER_QUERY * len(TIERS)
