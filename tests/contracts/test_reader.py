"""Asking a store from a loop of coroutines: it never blocks the loop and never waits for ever."""

from asyncio import gather, run
from datetime import timedelta
from threading import Event, get_ident

import pytest

from notifier.adapters.sqlite.reader import Reader
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.subject import Member, UserId
from tests.contracts.flow_stores import Store


def refuse() -> None:
    raise Poison("on purpose")


def test_a_question_is_asked_in_another_thread() -> None:
    reader = Reader()
    assert run(reader(get_ident)) != get_ident()
    reader.close()


def test_an_error_of_the_store_reaches_the_one_who_asked() -> None:
    reader = Reader()
    with pytest.raises(Poison, match="on purpose"):
        run(reader(refuse))
    reader.close()


def test_a_store_that_does_not_answer_is_unavailable_and_waiting_questions_are_dropped() -> None:
    reader, answer, asked = Reader(threads=1, deadline=timedelta(milliseconds=20)), Event(), Event()

    async def ask_both() -> list[object]:
        return list(await gather(reader(answer.wait), reader(asked.set), return_exceptions=True))

    refused = run(ask_both())
    answer.set()
    reader.close()
    assert [type(error) for error in refused] == [StoreUnavailable, StoreUnavailable]
    assert not asked.is_set()


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_coroutines_in_memory_never_suspend(store: Store) -> None:
    """A simulator steps them by hand."""
    for coroutine in (store.people.viewer(UserId("ada"), Member(1)), store.timeline.rows(Member(1), None, 1)):
        with pytest.raises(StopIteration):
            coroutine.send(None)
