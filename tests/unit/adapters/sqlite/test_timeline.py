"""Inbox rows in the files of members who follow many subjects: how much is read of each of them."""

import sqlite3
from asyncio import run
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.inbox import SqliteInbox
from notifier.adapters.sqlite.stores.timeline import SqliteTimeline
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.inbox_rows import InboxRow, InboxRows, cut
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from tests.support.fakes.clock import START

LIMIT = 20
MANY = 1_000
ME, OTHER = 5, 6
TICK = timedelta(milliseconds=1)


@dataclass
class CountedConnection:
    connection: sqlite3.Connection
    asked: list[str]

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self.asked.append(statement)
        return self.connection.execute(statement, *values)


@dataclass
class CountedDatabase:
    database: Database
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def read(self) -> Iterator[CountedConnection]:
        with self.database.read() as connection:
            yield CountedConnection(connection, self.asked)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    found = Files.at(tmp_path)
    found.migrate()
    yield found
    found.close()


def opened(number: int, seq: int, member: int = ME) -> InboxRows:
    """Return one of a subject's bursts; all subjects open one after the other, and then begin again."""
    key = BurstKey(Subject(Kind.MENTION, UserId(f"s{number:04}")), seq)
    at = START + (seq * MANY + number) * TICK
    return cut(from_offsets([member]), burst=key, opened_at=at, tier=Tier.P1, shard=0)


def rows(files: Files, asked: list[str], limit: int = LIMIT) -> list[InboxRow]:
    counted = [cast(Database, CountedDatabase(each, asked)) for each in files.inboxes]
    subjects = [Subject(Kind.MENTION, UserId(f"s{number:04}")) for number in range(MANY)]
    return list(run(SqliteTimeline(files.core, counted).rows(Member(ME), subjects, None, limit)))


def test_newest_rows_of_many_subjects_are_read_of_few(files: Files) -> None:
    """Among many subjects, few have newer rows than the last one of a page."""
    made = [opened(number, seq) for number in range(MANY) for seq in (1, 2)]
    SqliteInbox(files.inboxes).write(made)
    asked: list[str] = []
    found = rows(files, asked)
    newest = sorted(made, key=lambda one: one.opened_at, reverse=True)[:LIMIT]
    assert [row.burst for row in found] == [one.burst for one in newest]
    assert len(asked) < 2 * LIMIT


def test_rows_of_others_do_not_end_the_search(files: Files) -> None:
    """The newest subjects reach others alone."""
    SqliteInbox(files.inboxes).write([opened(number, 2, ME if number < 3 else OTHER) for number in range(MANY)])
    assert [row.burst.subject.owner for row in rows(files, [])] == ["s0002", "s0001", "s0000"]


def test_limit_of_nothing_reads_no_rows(files: Files) -> None:
    SqliteInbox(files.inboxes).write([opened(1, 1)])
    assert rows(files, [], limit=0) == []
