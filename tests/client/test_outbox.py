"""The outbox: submitting never blocks, and unsent events are reported."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from threading import Thread

import pytest

from notifier.client import Client, EventReceipt, Outbox
from notifier.client.batching import MAX_EVENT_BYTES
from tests.cli.running_service import until
from tests.client.scripted_service import ScriptedService, accept, event, problem, serving

WAIT_LIMIT = timedelta(seconds=20)
"""Only a failing test waits this long."""
NO_WAIT = timedelta(0)


@dataclass(slots=True)
class DelayedService:
    """A service that is not available yet, and a client whose pauses last until it is."""

    service: ScriptedService = field(default_factory=ScriptedService)
    available: Signal = field(default_factory=Signal)

    def client(self) -> Client:
        return Client(self.service.url, "a key", sleep=lambda _: (self.available.wait(20), None)[1])

    def become_available(self) -> None:
        self.service.open()
        self.available.set()


@contextmanager
def delayed_service() -> Iterator[DelayedService]:
    delayed = DelayedService()
    try:
        yield delayed
    finally:
        delayed.available.set()
        delayed.service.close()


def test_events_are_sent_in_order_with_a_receipt_each() -> None:
    receipts: list[EventReceipt] = []
    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client, on_receipt=receipts.append)
        assert all(outbox.submit(event(f"t{number}")) for number in range(50))
        assert outbox.close(WAIT_LIMIT) == ()
    assert [receipt.id for receipt in receipts] == [f"t{number}" for number in range(50)]
    assert [id for request in service.requests for id in request.ids] == [f"t{number}" for number in range(50)]


def test_full_outbox_refuses_events_and_loses_none() -> None:
    with delayed_service() as delayed, delayed.client() as client:
        outbox = Outbox(client, capacity=3)
        assert [outbox.submit(event(f"t{number}")) for number in range(5)] == [True, True, True, False, False]
        assert [event_.id for event_ in outbox.flush(NO_WAIT)] == ["t0", "t1", "t2"]
        delayed.become_available()
        assert outbox.flush(WAIT_LIMIT) == ()
        assert outbox.submit(event("t5"))
        assert outbox.close(WAIT_LIMIT) == ()
        assert [id for request in delayed.service.requests for id in request.ids] == ["t0", "t1", "t2", "t5"]


def test_closing_returns_unsent_events_and_refuses_new_ones() -> None:
    with delayed_service() as delayed, delayed.client() as client:
        outbox = Outbox(client)
        events = [event("t1"), event("t2")]
        assert [outbox.submit(event_) for event_ in events] == [True, True]
        assert list(outbox.close(NO_WAIT)) == events
        assert not outbox.submit(event("t3"))


def test_leaving_the_block_logs_unsent_events(caplog: pytest.LogCaptureFixture) -> None:
    with delayed_service() as delayed, delayed.client() as client, Outbox(client, close_timeout=NO_WAIT) as outbox:
        outbox.submit(event("t1"))
    assert "1 events were not sent; the first is t1" in caplog.text


def test_refused_event_is_logged_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    with serving(problem(409, "event_conflict")) as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert outbox.flush(WAIT_LIMIT) == ()
        outbox.submit(event("t2"))
        assert outbox.close(WAIT_LIMIT) == ()
    assert "event t1 was rejected: event_conflict: No. Because." in caplog.text
    assert [request.ids for request in service.requests] == [["t1"], ["t2"]]


def test_failing_receipt_callback_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: EventReceipt) -> None:
        raise RuntimeError("not here")

    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client, on_receipt=fail)
        outbox.submit(event("t1"))
        assert outbox.flush(WAIT_LIMIT) == ()
        outbox.submit(event("t2"))
        assert outbox.close(WAIT_LIMIT) == ()
    assert len(service.requests) == 2
    assert "receipt callback failed for event t2" in caplog.text


def test_wrong_key_is_logged_and_keeps_the_events() -> None:
    with (
        first_log_line() as first_line,
        serving(problem(401, "bad_token")) as service,
        Client(service.url, "a key") as client,
    ):
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert "rejects this key. The service answered 401 bad_token" in first_line()
        assert [event_.id for event_ in outbox.close(NO_WAIT)] == ["t1"]


def test_events_answered_before_an_error_are_removed() -> None:
    with delayed_service() as delayed, delayed.client() as client:
        outbox = Outbox(client)
        large = event("large", mentions=["n" * MAX_EVENT_BYTES])
        assert [outbox.submit(event_) for event_ in (event("t1"), large, event("t2"))] == [True, True, True]
        delayed.service.script = [accept, problem(401, "bad_token")]
        delayed.become_available()
        until(lambda: [event_.id for event_ in outbox.flush(NO_WAIT)] == ["t2"], WAIT_LIMIT.total_seconds())
        outbox.close(NO_WAIT)


def test_long_retry_after_is_respected() -> None:
    replies = [problem(503, "unavailable", Retry_After="86400")] * 1_000
    with first_log_line() as first_line, serving(*replies) as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        assert "in time; they may be sent again. The last answer was 503 unavailable" in first_line()
        assert len(outbox.flush(timedelta(seconds=0.2))) == 1
        outbox.close(NO_WAIT)
    assert len(service.requests) == 1


def test_concurrent_submits_send_each_event_once() -> None:
    with serving() as service, Client(service.url, "a key") as client:
        outbox = Outbox(client)
        run_in_threads(lambda id: outbox.submit(event(id)))
        assert outbox.close(WAIT_LIMIT) == ()
    assert sorted(id for request in service.requests for id in request.ids) == THREAD_EVENT_IDS


def test_client_can_be_shared_by_threads() -> None:
    receipt_ids: list[tuple[str, str]] = []
    with serving() as service, Client(service.url, "a key") as client:
        run_in_threads(lambda id: receipt_ids.append((id, client.send([event(id)])[0].id)))
    assert sorted(receipt_ids) == [(id, id) for id in THREAD_EVENT_IDS]
    assert len(service.connections) <= 8


def test_event_that_cannot_be_encoded_fails_on_submit() -> None:
    with Client("http://127.0.0.1:1", "a key") as client, pytest.raises(TypeError):
        Outbox(client).submit(event(author=object()))


THREAD_EVENT_IDS = sorted(f"t{thread}-{number}" for thread in range(8) for number in range(50))


def run_in_threads(job: Callable[[str], object]) -> None:
    """Run the job once per id of THREAD_EVENT_IDS, in eight threads."""
    threads = [Thread(target=lambda part=part: [job(id) for id in THREAD_EVENT_IDS[part::8]]) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def first_log_line() -> Iterator[Callable[[], str]]:
    """Yield a function that waits for the first line in the client's log, and returns it."""
    lines: list[str] = []
    logged = Signal()

    class FirstLineHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            logged.set()

    def first_line() -> str:
        assert logged.wait(20)
        return lines[0]

    handler = FirstLineHandler()
    logging.getLogger("notifier.client").addHandler(handler)
    try:
        yield first_line
    finally:
        logging.getLogger("notifier.client").removeHandler(handler)
