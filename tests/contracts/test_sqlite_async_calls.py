"""SQLite calls from an event loop never block it and never wait forever."""

from asyncio import create_task, gather, run, sleep
from datetime import timedelta
from gc import collect
from pathlib import Path
from threading import Event, current_thread, get_ident

import pytest

from notifier.adapters.sqlite import Files, SqlitePeople
from notifier.adapters.sqlite.async_queries import SqliteReader, SqliteWriter
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.visibility import Mark
from tests.contracts.memory_and_sqlite_stores import Store
from tests.support.contract_examples import NOVA


def refuse() -> None:
    raise Poison("on purpose")


def test_call_runs_in_another_thread() -> None:
    reader = SqliteReader()
    assert run(reader(get_ident)) != get_ident()
    reader.close()


def test_store_error_reaches_the_caller() -> None:
    reader = SqliteReader()
    with pytest.raises(Poison, match="on purpose"):
        run(reader(refuse))
    reader.close()


def test_silent_store_is_unavailable_and_queued_calls_are_dropped() -> None:
    reader, release, called = SqliteReader(thread_count=1, deadline=timedelta(milliseconds=20)), Event(), Event()

    async def call_both() -> list[object]:
        return list(await gather(reader(release.wait), reader(called.set), return_exceptions=True))

    refused = run(call_both())
    release.set()
    reader.close()
    assert [type(error) for error in refused] == [StoreUnavailable, StoreUnavailable]
    assert not called.is_set()


def test_call_beyond_queue_limit_is_refused_at_once() -> None:
    reader, release = SqliteReader(thread_count=1, max_in_flight=2), Event()

    async def call_three() -> list[object]:
        accepted = gather(*(reader(release.wait) for _ in range(3)), return_exceptions=True)
        refused = gather(reader(get_ident), return_exceptions=True)
        first = await refused
        release.set()
        return [*first, *await accepted]

    results = run(call_three())
    reader.close()
    assert [type(result) for result in results] == [StoreUnavailable, bool, bool, StoreUnavailable]


def test_slow_call_does_not_block_others() -> None:
    reader, release = SqliteReader(helpers_start_after=timedelta(0)), Event()

    async def call_behind() -> bool:
        held_up = create_task(reader(release.wait))
        await sleep(0)
        while not await reader(release.is_set):  # answered while the first call waits
            release.set()
        return await held_up

    assert run(call_behind())
    reader.close()


def test_each_call_runs_once_in_any_thread() -> None:
    calls = list[int]()

    def record(n: int) -> int:
        calls.append(n)
        return n

    async def call_all(reader: SqliteReader) -> list[int]:
        return list(await gather(*(reader(record, n) for n in range(900))))

    for held_up_after in (timedelta(0), timedelta(seconds=9)):
        reader = SqliteReader(helpers_start_after=held_up_after, deadline=timedelta(seconds=60))
        assert run(call_all(reader)) == run(call_all(reader)) == list(range(900))
        reader.close()
    assert sorted(calls) == sorted([*range(900)] * 4)


def test_result_of_write_does_not_wait_for_other_writes() -> None:
    writer, release = SqliteWriter(thread_count=1, deadline=timedelta(seconds=60)), Event()

    async def write_both() -> bool:
        first, second = create_task(writer(get_ident)), create_task(writer(release.wait))
        await first
        held_up = not second.done()
        release.set()
        return held_up and await second

    assert run(write_both())
    writer.close()


def test_threads_end_with_their_reader() -> None:
    reader = SqliteReader()
    thread = run(reader(current_thread))
    del reader
    collect()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_marks_on_locked_database_time_out_without_blocking_reads(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    reader, writer = SqliteReader(), SqliteWriter(deadline=timedelta(milliseconds=200))
    people = SqlitePeople(files.core, reader, writer)

    async def mark_and_read() -> list[object]:
        marks = [people.mark(Member(n), [BurstKey.parse("mention:nova#1")], Mark.READ) for n in range(20)]
        pending_marks = gather(*marks, return_exceptions=True)
        viewers = gather(*(people.viewer(UserId("ada"), Member(1)) for _ in range(20)))
        assert len(await viewers) == 20
        return list(await pending_marks)

    with Files.at(tmp_path).core.write():  # a lock as another process would hold it
        results = run(mark_and_read())
    writer.close()
    reader.close()
    files.close()
    assert {type(error) for error in results} == {StoreUnavailable}


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_in_memory_coroutines_never_suspend(store: Store) -> None:
    """The simulator steps coroutines by hand."""
    for coroutine in (store.people.viewer(UserId("ada"), Member(1)), store.timeline.rows(Member(1), [NOVA], None, 1)):
        with pytest.raises(StopIteration):
            coroutine.send(None)
