"""SQLite inbox reads of members who follow many subjects: result and number of statements."""

import sqlite3
from asyncio import run
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.inbox_rows import SqliteInbox
from notifier.adapters.sqlite.stores.inbox_timeline import SqliteTimeline
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from tests.support.fakes.clock_and_nonces import START

LIMIT = 20
SUBJECT_COUNT = 1_000
VIEWER, OTHER_MEMBER = 5, 6
TICK = timedelta(milliseconds=1)


@dataclass
class CountingConnection:
    connection: sqlite3.Connection
    statements: list[str]

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self.statements.append(statement)
        return self.connection.execute(statement, *values)


@dataclass
class CountingDatabase:
    database: Database
    statements: list[str] = field(default_factory=list)

    @contextmanager
    def read(self) -> Iterator[CountingConnection]:
        with self.database.read() as connection:
            yield CountingConnection(connection, self.statements)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened_files = Files.at(tmp_path)
    opened_files.migrate()
    yield opened_files
    opened_files.close()


def burst_rows(number: int, seq: int, member: int = VIEWER) -> InboxRows:
    """Return the rows of one burst; the subjects open bursts in turn."""
    key = BurstKey(Subject(Kind.MENTION, UserId(f"s{number:04}")), seq)
    at = START + (seq * SUBJECT_COUNT + number) * TICK
    return cut_inbox_rows(from_offsets([member]), burst=key, opened_at=at, tier=Tier.P1, shard=0)


def read_rows(files: Files, statements: list[str], limit: int = LIMIT) -> list[InboxRow]:
    databases = [cast(Database, CountingDatabase(database, statements)) for database in files.inboxes]
    subjects = [Subject(Kind.MENTION, UserId(f"s{number:04}")) for number in range(SUBJECT_COUNT)]
    return list(run(SqliteTimeline(files.core, databases).rows(Member(VIEWER), subjects, None, limit)))


def test_page_is_read_with_few_statements(files: Files) -> None:
    """Among many subjects, few have newer rows than the last row of a page."""
    bursts = [burst_rows(number, seq) for number in range(SUBJECT_COUNT) for seq in (1, 2)]
    SqliteInbox(files.inboxes).write(bursts)
    statements: list[str] = []
    result = read_rows(files, statements)
    newest = sorted(bursts, key=lambda burst: burst.opened_at, reverse=True)[:LIMIT]
    assert [row.burst for row in result] == [burst.burst for burst in newest]
    assert len(statements) < 2 * LIMIT


def test_rows_of_other_members_do_not_end_the_search(files: Files) -> None:
    """The newest bursts reach only other members."""
    SqliteInbox(files.inboxes).write(
        [burst_rows(number, 2, VIEWER if number < 3 else OTHER_MEMBER) for number in range(SUBJECT_COUNT)]
    )
    assert [row.burst.subject.owner for row in read_rows(files, [])] == ["s0002", "s0001", "s0000"]


def test_limit_of_zero_reads_no_rows(files: Files) -> None:
    SqliteInbox(files.inboxes).write([burst_rows(1, 1)])
    assert read_rows(files, [], limit=0) == []
