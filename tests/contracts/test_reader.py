"""Asking a store from a loop of coroutines: it never blocks the loop and never waits for ever."""

from asyncio import create_task, gather, run, sleep
from datetime import timedelta
from gc import collect
from pathlib import Path
from threading import Event, current_thread, get_ident

import pytest

from notifier.adapters.sqlite import Files, SqlitePeople
from notifier.adapters.sqlite.async_reader import SqliteReader, SqliteWriter
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.visibility import Mark
from tests.contracts.flow_stores import Store
from tests.support.contract_examples import NOVA


def refuse() -> None:
    raise Poison("on purpose")


def test_a_question_is_asked_in_another_thread() -> None:
    reader = SqliteReader()
    assert run(reader(get_ident)) != get_ident()
    reader.close()


def test_an_error_of_the_store_reaches_the_one_who_asked() -> None:
    reader = SqliteReader()
    with pytest.raises(Poison, match="on purpose"):
        run(reader(refuse))
    reader.close()


def test_a_store_that_does_not_answer_is_unavailable_and_waiting_questions_are_dropped() -> None:
    reader, answer, asked = SqliteReader(threads=1, deadline=timedelta(milliseconds=20)), Event(), Event()

    async def ask_both() -> list[object]:
        return list(await gather(reader(answer.wait), reader(asked.set), return_exceptions=True))

    refused = run(ask_both())
    answer.set()
    reader.close()
    assert [type(error) for error in refused] == [StoreUnavailable, StoreUnavailable]
    assert not asked.is_set()


def test_a_question_behind_too_many_others_is_refused_at_once() -> None:
    reader, answer = SqliteReader(threads=1, waiting=2), Event()

    async def ask_three() -> list[object]:
        asked = gather(*(reader(answer.wait) for _ in range(3)), return_exceptions=True)
        refused = gather(reader(get_ident), return_exceptions=True)
        first = await refused
        answer.set()
        return [*first, *await asked]

    answers = run(ask_three())
    reader.close()
    assert [type(each) for each in answers] == [StoreUnavailable, bool, bool, StoreUnavailable]


def test_question_that_is_held_up_holds_up_no_other() -> None:
    reader, answer = SqliteReader(held_up_after=timedelta(0)), Event()

    async def ask_behind() -> bool:
        held_up = create_task(reader(answer.wait))
        await sleep(0)
        while not await reader(answer.is_set):  # answered while the first one is asked
            answer.set()
        return await held_up

    assert run(ask_behind())
    reader.close()


def test_each_question_is_answered_once_whichever_threads_ask() -> None:
    asked = list[int]()

    def ask(n: int) -> int:
        asked.append(n)
        return n

    async def ask_all(reader: SqliteReader) -> list[int]:
        return list(await gather(*(reader(ask, n) for n in range(900))))

    for held_up_after in (timedelta(0), timedelta(seconds=9)):
        reader = SqliteReader(held_up_after=held_up_after, deadline=timedelta(seconds=60))
        assert run(ask_all(reader)) == run(ask_all(reader)) == list(range(900))
        reader.close()
    assert sorted(asked) == sorted([*range(900)] * 4)


def test_answer_of_a_write_waits_for_no_other_write() -> None:
    writer, answer = SqliteWriter(threads=1, deadline=timedelta(seconds=60)), Event()

    async def write_both() -> bool:
        first, second = create_task(writer(get_ident)), create_task(writer(answer.wait))
        await first
        held_up = not second.done()
        answer.set()
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


def test_marks_that_wait_for_a_locked_database_hold_up_no_reading_and_are_refused_in_time(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    reader, writer = SqliteReader(), SqliteWriter(deadline=timedelta(milliseconds=200))
    people = SqlitePeople(files.core, reader, writer)

    async def mark_and_read() -> list[object]:
        marks = [people.mark(Member(n), [BurstKey.parse("mention:nova#1")], Mark.READ) for n in range(20)]
        waiting = gather(*marks, return_exceptions=True)
        viewers = gather(*(people.viewer(UserId("ada"), Member(1)) for _ in range(20)))
        assert len(await viewers) == 20
        return list(await waiting)

    with Files.at(tmp_path).core.write():  # another process's, for all that these know
        refused = run(mark_and_read())
    writer.close()
    reader.close()
    files.close()
    assert {type(error) for error in refused} == {StoreUnavailable}


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_coroutines_in_memory_never_suspend(store: Store) -> None:
    """A simulator steps them by hand."""
    for coroutine in (store.people.viewer(UserId("ada"), Member(1)), store.timeline.rows(Member(1), [NOVA], None, 1)):
        with pytest.raises(StopIteration):
            coroutine.send(None)
