"""The outbox: who submits never waits, and what wasn't sent is told."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from threading import Thread

import pytest

from notifier.client import Client, EventReceipt, Outbox
from notifier.client.batching import LARGEST_EVENT
from tests.cli.running import until
from tests.client.scripted import Scripted, accept, event, problem, serving

SOON = timedelta(seconds=20)
"""Only a failing test waits so long."""
NOW = timedelta(0)


@dataclass(slots=True)
class Away:
    """A service that isn't there yet, and a client whose pauses last until it comes back."""

    service: Scripted = field(default_factory=Scripted)
    back: Signal = field(default_factory=Signal)

    def client(self) -> Client:
        return Client(self.service.url, "a key", sleep=lambda _: (self.back.wait(20), None)[1])

    def come_back(self) -> None:
        self.service.open()
        self.back.set()


@contextmanager
def away() -> Iterator[Away]:
    found = Away()
    try:
        yield found
    finally:
        found.back.set()
        found.service.close()


def test_what_is_submitted_is_sent_in_order_and_told() -> None:
    told: list[EventReceipt] = []
    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client, told=told.append)
        assert all(outbox.submit(event(f"t{number}")) for number in range(50))
        assert outbox.close(SOON) == ()
    assert [receipt.id for receipt in told] == [f"t{number}" for number in range(50)]
    assert [id for request in service.requests for id in request.ids] == [f"t{number}" for number in range(50)]


def test_a_full_line_is_told_at_once_and_nothing_in_it_is_lost() -> None:
    with away() as found, found.client() as client:
        outbox = Outbox(client, capacity=3)
        assert [outbox.submit(event(f"t{number}")) for number in range(5)] == [True, True, True, False, False]
        assert [each.id for each in outbox.flush(NOW)] == ["t0", "t1", "t2"]
        found.come_back()
        assert outbox.flush(SOON) == ()
        assert outbox.submit(event("t5"))
        assert outbox.close(SOON) == ()
        assert [id for request in found.service.requests for id in request.ids] == ["t0", "t1", "t2", "t5"]


def test_what_was_not_sent_when_it_is_closed_is_given_back_and_no_more_is_taken() -> None:
    with away() as found, found.client() as client:
        outbox = Outbox(client)
        given = [event("t1"), event("t2")]
        assert [outbox.submit(each) for each in given] == [True, True]
        assert list(outbox.close(NOW)) == given
        assert not outbox.submit(event("t3"))


def test_leaving_its_block_tells_the_log_what_was_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    with away() as found, found.client() as client, Outbox(client, closed_within=NOW) as outbox:
        outbox.submit(event("t1"))
    assert "1 events were not sent; the first is t1" in caplog.text


def test_a_refused_event_is_told_to_the_log_and_leaves_the_line(caplog: pytest.LogCaptureFixture) -> None:
    with serving(problem(409, "event_conflict")) as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert outbox.flush(SOON) == ()
        outbox.submit(event("t2"))
        assert outbox.close(SOON) == ()
    assert "The event t1 was refused: event_conflict: No. Because." in caplog.text
    assert [request.ids for request in service.requests] == [["t1"], ["t2"]]


def test_who_is_told_and_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: EventReceipt) -> None:
        raise RuntimeError("not here")

    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client, told=fail)
        outbox.submit(event("t1"))
        assert outbox.flush(SOON) == ()
        outbox.submit(event("t2"))
        assert outbox.close(SOON) == ()
    assert len(service.requests) == 2
    assert "Who is told of t2 failed" in caplog.text


def test_a_wrong_key_is_told_and_keeps_the_events() -> None:
    with (
        heard() as words,
        serving(problem(401, "bad_token")) as service,
        Client(service.url, "a key") as client,
    ):
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert "doesn't take this key. It says 401 bad_token" in words()
        assert [each.id for each in outbox.close(NOW)] == ["t1"]


def test_what_was_answered_before_something_went_wrong_leaves_the_line() -> None:
    with away() as found, found.client() as client:
        outbox = Outbox(client)
        large = event("large", mentions=["n" * LARGEST_EVENT])
        assert [outbox.submit(each) for each in (event("t1"), large, event("t2"))] == [True, True, True]
        found.service.script = [accept, problem(401, "bad_token")]
        found.come_back()
        until(lambda: [each.id for each in outbox.flush(NOW)] == ["t2"], SOON.total_seconds())
        outbox.close(NOW)


def test_a_service_that_asks_for_more_than_a_round_is_left_alone() -> None:
    away_for_long = [problem(503, "unavailable", Retry_After="86400")] * 1_000
    with heard() as words, serving(*away_for_long) as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert "in time; they may be sent again. The last answer was 503 unavailable" in words()
        assert len(outbox.flush(timedelta(seconds=0.2))) == 1
        outbox.close(NOW)
    assert len(service.requests) == 1


def test_many_threads_may_submit_and_each_event_is_sent_once() -> None:
    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        crowd(lambda id: outbox.submit(event(id)))
        assert outbox.close(SOON) == ()
    assert sorted(id for request in service.requests for id in request.ids) == CROWD


def test_many_threads_may_share_a_client_and_each_gets_its_own_answer() -> None:
    answers: list[tuple[str, str]] = []
    with serving() as service, Client(service.url, "a key") as client:
        crowd(lambda id: answers.append((id, client.send([event(id)])[0].id)))
    assert sorted(answers) == [(id, id) for id in CROWD]
    assert len(service.connections) <= 8


def test_an_event_that_cannot_be_spelled_fails_where_it_is_submitted() -> None:
    with Client("http://127.0.0.1:1", "a key") as client, pytest.raises(TypeError):
        Outbox(client).submit(event(author=object()))


CROWD = sorted(f"t{thread}-{number}" for thread in range(8) for number in range(50))


def crowd(job: Callable[[str], object]) -> None:
    """Eight threads at a time do it, once for each of CROWD."""
    threads = [Thread(target=lambda part=part: [job(id) for id in CROWD[part::8]]) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def heard() -> Iterator[Callable[[], str]]:
    """Waits for the first line in the client's log."""
    said: list[str] = []
    spoken = Signal()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            spoken.set()

    def words() -> str:
        assert spoken.wait(20)
        return said[0]

    ear = Ear()
    logging.getLogger("notifier.client").addHandler(ear)
    try:
        yield words
    finally:
        logging.getLogger("notifier.client").removeHandler(ear)
