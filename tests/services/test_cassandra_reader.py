"""Asking Cassandra from a loop of coroutines: side by side, all pages, never for ever."""

import gc
from asyncio import gather, run
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from time import monotonic, sleep
from uuid import uuid4

import pytest
from cassandra import InvalidRequest
from cassandra.cluster import ResponseFuture

from notifier.adapters.cassandra import CassandraInbox, Cluster, Phase, migrate, require
from notifier.adapters.cassandra.driver.async_reader import AT_ONCE, CassandraReader
from notifier.devkit.engines.maven import missing
from notifier.domain.audience.inbox_rows import SHARD_RANGES
from notifier.domain.errors import SchemaOlder, StoreUnavailable
from tests.services.rows import MIXED, rows
from tests.support.fakes.clock import ManualClock
from tests.support.keyspace import WITHIN, patient_reader

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

RANGES = "SELECT member_range FROM inbox"
OF_RANGE = "SELECT members FROM inbox WHERE member_range = ? AND inbox_window = ?"


def test_all_pages_of_an_answer_are_read(cluster: Cluster) -> None:
    made = [rows(0.01, shard=shard) for shard in range(160)]
    CassandraInbox(cluster, ManualClock()).write(made)
    found = run(patient_reader(cluster)(RANGES))
    assert len(found) == sum(one.written for one in made) > 5_000  # which is a page
    assert {row.member_range for row in found} == {each for one in made for each in one.ranges}


def test_answers_come_in_the_order_of_the_questions(cluster: Cluster) -> None:
    made = [rows(MIXED, shard=shard) for shard in range(4)]
    CassandraInbox(cluster, ManualClock()).write(made)
    window = cluster.execute("SELECT inbox_window FROM inbox LIMIT 1")[0][0]
    asked = range(4 * SHARD_RANGES + 1, -1, -1)
    answers = run(patient_reader(cluster).each(OF_RANGE, [(member_range, window) for member_range in asked]))
    assert [members for [(members,)] in answers[:1:-1]] == [members for one in made for members in one.members]
    assert answers[:2] == [[], []]


def test_no_answer_in_time_is_an_outage(cluster: Cluster) -> None:
    cluster.prepared(RANGES)
    with pytest.raises(StoreUnavailable, match="No answer within"):
        run(CassandraReader(cluster, deadline=timedelta(microseconds=1))(RANGES))


def test_a_question_behind_too_many_others_is_refused_at_once(cluster: Cluster) -> None:
    reader = CassandraReader(cluster, waiting=2, deadline=timedelta(seconds=WITHIN))

    async def ask_three() -> list[object]:
        return list(await gather(*(reader(RANGES) for _ in range(3)), return_exceptions=True))

    assert [type(answer) for answer in run(ask_three())] == [list, list, StoreUnavailable]
    assert run(reader(RANGES)) == []


def test_more_questions_than_places_are_answered(cluster: Cluster) -> None:
    reader = CassandraReader(cluster, waiting=AT_ONCE + 1, deadline=timedelta(seconds=30))
    answers = run(reader.each(OF_RANGE, [(each, 0) for each in range(4 * AT_ONCE)]))
    assert answers == [[]] * (4 * AT_ONCE)
    assert run(reader.all([])) == []


def test_deadline_is_one_for_all_that_is_asked_within(cluster: Cluster) -> None:
    async def ask_for_ever(reader: CassandraReader) -> None:
        async with reader.deadline():
            while True:
                await reader(RANGES)

    with pytest.raises(StoreUnavailable, match="No answer within"):
        run(ask_for_ever(CassandraReader(cluster, deadline=timedelta(milliseconds=100))))


def test_a_mistake_in_a_question_is_not_an_outage(cluster: Cluster) -> None:
    with pytest.raises(InvalidRequest):
        run(patient_reader(cluster)("SELECT nothing FROM inbox"))


def test_a_statement_that_the_schema_refuses_says_what_it_lacks_until_it_is_there(cluster: Cluster) -> None:
    """To whoever started while the store was away: it waits, and buries nothing of what it reads."""
    with closing(Cluster(replace(cluster.access, keyspace=f"early_{uuid4().hex[:12]}"), require)) as early:
        early.create()
        with pytest.raises(SchemaOlder, match="The keyspace has no tables of ours"):
            early.prepared("SELECT subject FROM heads")
        migrate(early, Phase.PRE)
        assert early.ask("SELECT subject FROM heads") == []
        with pytest.raises(InvalidRequest):  # a mistake stays one
            early.prepared("SELECT nothing FROM heads")


def test_what_was_answered_is_kept_no_longer_than_it_is_read(cluster: Cluster) -> None:
    """A worker reads gigabytes of bitmaps; else each answer stayed until the driver's timer of its question ran out."""
    cluster.ask(RANGES)
    gc.collect()
    before = asked()  # what other tests were never answered
    gc.disable()
    try:
        cluster.ask_each(OF_RANGE, [(each, 0) for each in range(100)])
        run(CassandraReader(cluster).each(OF_RANGE, [(each, 0) for each in range(100)]))
        deadline = monotonic() + 10  # the driver's thread may still have the last one in its hands
        while [one for one in asked() if one not in before]:
            assert monotonic() < deadline
            sleep(0.05)
    finally:
        gc.enable()


def asked() -> list[ResponseFuture]:
    return [one for one in gc.get_objects() if type(one) is ResponseFuture]
