"""Questions asked side by side: how many are on their way, when the rest is asked, and what the loop is told."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from notifier.adapters.cassandra.driver.async_reader import Answers
from notifier.mailbox import Mailbox


@dataclass
class FakeFuture:
    """As much of the driver's as is used; answered by hand, in whichever thread the test is."""

    value: int
    more_pages: int = 0
    callbacks: list[tuple[Callable[..., None], Callable[..., None], tuple[int]]] = field(default_factory=list)

    @property
    def has_more_pages(self) -> bool:
        return self.more_pages > 0

    def add_callbacks(
        self, page: Callable[..., None], failed: Callable[..., None], args: tuple[int], errback_args: tuple[int]
    ) -> None:
        self.callbacks.append((page, failed, args))

    def clear_callbacks(self) -> None:
        self.callbacks.clear()

    def start_fetching_next_page(self) -> None:
        self.more_pages -= 1

    def answer(self, rows: list[Any]) -> None:
        for page, _, args in list(self.callbacks):
            page(rows, *args)

    def fail(self, error: Exception) -> None:
        for _, failed, args in list(self.callbacks):
            failed(error, *args)


@dataclass
class FakeSession:
    asked: list[FakeFuture] = field(default_factory=list)
    refuses: Exception | None = None

    def execute_async(self, prepared: object, values: tuple[int]) -> FakeFuture:
        if self.refuses is not None:
            raise self.refuses
        self.asked.append(FakeFuture(values[0]))
        return self.asked[-1]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def asking(session: FakeSession, mailbox: Mailbox, count: int, at_once: int = 2) -> Answers:
    answers = Answers(cast(Session, session), [(cast(PreparedStatement, None), (n,)) for n in range(count)], mailbox)
    answers.ask(at_once)
    return answers


def result(loop: asyncio.AbstractEventLoop, answers: Answers) -> Any:
    return loop.run_until_complete(asyncio.wait_for(answers.arrived, 1))


def test_each_answer_asks_the_next_question(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 5)
    for answered in (1, 0, 3, 2, 4):
        assert len(session.asked) - sum(not one.callbacks for one in session.asked) <= 2
        session.asked[answered].answer([answered])
    assert [one.value for one in session.asked] == [0, 1, 2, 3, 4]
    assert result(loop, answers) == [[0], [1], [2], [3], [4]]


def test_all_pages_belong_to_one_answer(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 1)
    session.asked[0].more_pages = 2
    for page in ([1, 2], [], [3]):
        session.asked[0].answer(page)
    assert result(loop, answers) == [[1, 2, 3]]


def test_write_is_answered_by_no_rows(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 1)
    for page, _, args in list(session.asked[0].callbacks):
        page(None, *args)
    assert result(loop, answers) == [[]]


def test_first_error_ends_all_of_it(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 9)
    session.asked[1].fail(ValueError("on purpose"))
    session.asked[0].answer([0])
    assert len(session.asked) == 2
    with pytest.raises(ValueError, match="on purpose"):
        result(loop, answers)


def test_question_that_cannot_be_sent_is_an_error(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 3)
    session.refuses = ValueError("no session")
    session.asked[0].answer([0])
    with pytest.raises(ValueError, match="no session"):
        result(loop, answers)


def test_nothing_is_asked_after_stop(loop: asyncio.AbstractEventLoop) -> None:
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 5)
    late = [callback for one in session.asked for callback in one.callbacks]
    answers.stop()
    assert [one.callbacks for one in session.asked] == [[], []]
    for page, _, args in late:  # was on its way into the callback when the deadline passed
        page([1], *args)
    assert len(session.asked) == 2


def test_no_future_keeps_its_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """Else it would hold its answer in a ring."""
    session = FakeSession()
    answers = asking(session, Mailbox(loop), 4)
    for one in (0, 1, 2):
        session.asked[one].answer([])
    session.asked[3].fail(ValueError("on purpose"))
    assert [one.callbacks for one in session.asked] == [[]] * 4
    with pytest.raises(ValueError, match="on purpose"):
        result(loop, answers)


def test_answer_after_the_end_of_the_loop_is_dropped() -> None:
    loop, session = asyncio.new_event_loop(), FakeSession()
    asking(session, Mailbox(loop), 1)
    loop.close()
    session.asked[0].answer([])
