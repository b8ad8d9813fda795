"""Inbox rows of members who follow many subjects, before a session that answers from a list of rows."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from notifier.adapters.cassandra.driver.async_reader import AT_ONCE, WAITING, CassandraReader
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.stores.inbox import NAMES, ROWS, Inboxes
from notifier.adapters.cassandra.stores.inbox import WantedRows as Wanted
from notifier.codec.storage import to_ms
from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.audience.tiers import TIERS
from notifier.domain.ids import Member

MEMBER, PLACE = Member(5), b"\x05\x00"
BEGAN = to_ms(datetime(2026, 1, 5, tzinfo=UTC))
ENOUGH = ROWS // NAMES // len(TIERS) + 1
"""Bursts of each subject, in three tiers each, from which on one question can't take the rows of its subjects."""


@dataclass
class FakeFuture:
    """As much of the driver's as is used. The loop answers it once whoever asks has come to wait."""

    answered: Callable[[], None]
    rows: list[Any]
    has_more_pages = False

    def add_callbacks(
        self, page: Callable[..., None], failed: Callable[..., None], args: tuple[int], errback_args: tuple[int]
    ) -> None:
        asyncio.get_running_loop().call_soon(self._answer, page, args)

    def clear_callbacks(self) -> None:
        return

    def _answer(self, page: Callable[..., None], args: tuple[int]) -> None:
        self.answered()
        page(self.rows, *args)


@dataclass
class FakeCluster:
    """One inbox window of a range: its rows by subject, each newest first."""

    subjects: dict[str, list[Any]]
    underway: int = 0
    most: int = 0
    """Questions on their way at once."""
    read: int = 0
    """Rows that were answered."""
    asked: list[str] = field(default_factory=list)

    def session(self) -> "FakeCluster":
        return self

    def remembered(self, statement: str) -> str:
        return statement

    def execute_async(self, statement: str, values: tuple[Any, ...]) -> FakeFuture:
        self.asked.append(statement)
        self.underway += 1
        self.most = max(self.most, self.underway)
        rows = self._rows(*values)
        self.read += len(rows)
        return FakeFuture(self._answered, rows)

    def _rows(self, member_range: int, window: int, names: list[str] | str, *bounds: int) -> list[Any]:
        *until, limit = bounds
        several = sorted(names) if isinstance(names, list) else [names]
        rows = (row for name in several for row in self.subjects.get(name, ()))
        return list(islice((row for row in rows if [row.opened_at, row.seq][: len(until)] <= until), limit))

    def _answered(self) -> None:
        self.underway -= 1


def filled(subjects: int, bursts: int, members: bytes = PLACE) -> FakeCluster:
    """Return bursts of all subjects in turns, each with a row in every tier."""

    def row(subject: int, seq: int, tier: str) -> Any:
        at = BEGAN + seq * subjects + subject
        return SimpleNamespace(subject=f"mention:s{subject:05}", opened_at=at, seq=seq, tier=tier, members=members)

    numbers = range(bursts, 0, -1)
    return FakeCluster(
        {f"mention:s{each:05}": [row(each, seq, tier) for seq in numbers for tier in TIERS] for each in range(subjects)}
    )


def newest(cluster: FakeCluster, limit: int) -> list[tuple[int, str, int]]:
    every = [(row.opened_at, row.subject, row.seq) for rows in cluster.subjects.values() for row in rows]
    return sorted(every, reverse=True)[:limit]


def rows(cluster: FakeCluster, limit: int = 20) -> Sequence[InboxRow]:
    reader = CassandraReader(cast(Cluster, cluster), deadline=timedelta(minutes=1))
    wanted = Wanted(member=MEMBER, subjects=[*cluster.subjects], place=None, limit=limit)
    return asyncio.run(Inboxes(reader=reader).rows(wanted, range(1)))


def places(found: Sequence[InboxRow]) -> list[tuple[int, str, int]]:
    return [(to_ms(row.opened_at), str(row.burst.subject), row.burst.seq) for row in found]


@pytest.mark.parametrize("subjects", [NAMES, WAITING + NAMES])
def test_rows_of_many_busy_subjects_are_read_a_few_at_a_time(subjects: int) -> None:
    cluster = filled(subjects, ENOUGH)
    assert places(rows(cluster)) == newest(cluster, 20)
    assert cluster.most <= AT_ONCE


def test_few_rows_of_many_subjects_take_one_question_for_each_hundred() -> None:
    cluster = filled(3 * NAMES, 1)
    assert places(rows(cluster)) == newest(cluster, 20)
    assert len(cluster.asked) == 3


def test_single_subject_is_read_no_further_than_needed() -> None:
    cluster = filled(1, 2 * ROWS)
    assert places(rows(cluster)) == newest(cluster, 20)
    assert cluster.read < ROWS


@pytest.mark.parametrize("bursts", [21, 22, 200, 2 * ROWS])
def test_every_row_is_read_once_wherever_answers_end(bursts: int) -> None:
    cluster = filled(1, bursts)
    found = rows(cluster, limit=10 * ROWS)
    assert len({(row.burst, row.tier) for row in found}) == len(found) == len(TIERS) * bursts
    assert places(found) == newest(cluster, 10 * ROWS)


def test_rows_that_do_not_reach_the_member_are_read_to_their_end() -> None:
    assert rows(filled(2, 2 * ROWS, members=b"\x06\x00")) == []
