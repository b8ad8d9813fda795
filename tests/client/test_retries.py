"""The client's retries when the service refuses, stays silent, breaks off or asks to wait."""

import socket
from datetime import timedelta
from threading import Thread
from time import monotonic

import pytest

from notifier.client import AccessDenied, Client, NotTheService, ReceiptStatus, Unanswered
from notifier.client.http import MAX_JITTER_SECONDS, MAX_RETRY_AFTER_SECONDS
from tests.client.scripted_service import (
    Pauses,
    Reply,
    ScriptedService,
    accept,
    accept_and_close,
    break_off,
    break_off_in_the_response,
    client_of,
    event,
    http_response,
    problem,
    respond,
    serving,
    stay_silent,
)


@pytest.mark.parametrize(
    "failure",
    [
        problem(503, "log_unavailable"),
        problem(507, "disk_full"),
        respond(429),
        respond(408),
        respond(500),
        respond(502, b"<html>"),
        break_off,
        break_off_in_the_response,
    ],
    ids=["503", "507", "429", "408", "500", "502", "broken off", "broken off in the answer"],
)
def test_same_bytes_are_resent_until_they_are_accepted(failure: Reply) -> None:
    pauses = Pauses()
    with serving(failure, failure) as service, client_of(service.url, pauses) as client:
        [receipt] = client.send([event()])
    assert receipt.status is ReceiptStatus.ACCEPTED
    assert len({request.body for request in service.requests}) == 1
    assert len(service.requests) == 3
    assert len(pauses.slept) == 2


def test_silent_service_is_retried_on_another_connection() -> None:
    with (
        serving(stay_silent) as service,
        client_of(service.url, Pauses(), request_timeout=timedelta(seconds=0.3)) as client,
    ):
        [receipt] = client.send([event()], within=timedelta(hours=1))
    assert receipt.status is ReceiptStatus.ACCEPTED
    assert len(service.connections) >= 2
    assert {request.body for request in service.requests} == {service.requests[0].body}


@pytest.mark.parametrize("connection_kept", [False, True], ids=["new connection", "kept connection"])
def test_silent_service_is_not_awaited_beyond_the_deadline(connection_kept: bool) -> None:
    with (
        serving(*([accept] if connection_kept else []), stay_silent, stay_silent) as service,
        Client(service.url, "a key") as client,
    ):
        if connection_kept:
            client.send([event("t1")])
        started = monotonic()
        with pytest.raises(Unanswered, match="TimeoutError"):
            client.send([event("t2")], within=timedelta(seconds=0.3))
    assert monotonic() - started < 5  # a single attempt may take ten seconds


def test_service_that_is_not_open_yet_is_retried() -> None:
    service = ScriptedService()

    class OpeningPauses(Pauses):
        def sleep(self, seconds: float) -> None:
            Pauses.sleep(self, seconds)
            if len(self.slept) == 3:
                service.open()

    pauses = OpeningPauses()
    try:
        with client_of(service.url, pauses) as client:
            assert client.send([event()])[0].is_accepted
    finally:
        service.close()
    assert len(pauses.slept) == 3


def test_pauses_grow_to_a_limit_with_full_jitter() -> None:
    longest, shortest = Pauses(), Pauses()
    with serving() as service:
        for pauses, chance in ((longest, 1.0), (shortest, 0.0)):
            service.script = [respond(503)] * 10
            with client_of(service.url, pauses, chance=chance) as client:
                client.send([event()], within=timedelta(hours=1))
    assert longest.slept == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        6.4,
        MAX_JITTER_SECONDS,
        MAX_JITTER_SECONDS,
        MAX_JITTER_SECONDS,
    ]
    assert shortest.slept == [0.0] * 10


@pytest.mark.parametrize(
    ("retry_after", "minimum"),
    [
        ("7", 7.0),
        ("86400", MAX_RETRY_AFTER_SECONDS),
        ("Fri, 01 Jan 2999 00:00:00 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Fri, 01 Jan 1999 00:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
    ],
)
def test_pause_respects_retry_after_up_to_a_limit(retry_after: str, minimum: float) -> None:
    pauses = Pauses()
    with serving(respond(503, Retry_After=retry_after)) as service, client_of(service.url, pauses) as client:
        client.send([event()], within=timedelta(minutes=2))
    assert pauses.slept == [pytest.approx(minimum + 0.05)]


def test_deadline_error_has_the_cause_and_the_unanswered_events() -> None:
    pauses = Pauses()
    with (
        serving(accept, *[problem(503, "log_unavailable")] * 100) as service,
        client_of(service.url, pauses) as client,
        pytest.raises(Unanswered, match=r"503 log_unavailable: No\. Because") as caught,
    ):
        client.send([event(f"t{n}") for n in range(1_500)], within=timedelta(seconds=20))
    assert [receipt.id for receipt in caught.value.receipts] == [f"t{n}" for n in range(1_000)]
    assert [event_.id for event_ in caught.value.events] == [f"t{n}" for n in range(1_000, 1_500)]
    assert 10 < sum(pauses.slept) <= 20


def test_retry_after_beyond_the_deadline_gives_up_at_once() -> None:
    pauses = Pauses()
    with (
        serving(respond(507, Retry_After="10")) as service,
        client_of(service.url, pauses) as client,
        pytest.raises(Unanswered, match="507") as caught,
    ):
        client.send([event()], within=timedelta(seconds=5))
    assert (pauses.slept, caught.value.retry_after) == ([], 10.0)


@pytest.mark.parametrize(("status", "code"), [(400, "bad_event"), (409, "event_conflict"), (413, "too_large")])
def test_refusal_is_a_receipt_and_not_retried(status: int, code: str) -> None:
    with serving(problem(status, code)) as service, client_of(service.url, Pauses()) as client:
        [receipt] = client.send([event()])
    assert receipt.status is ReceiptStatus.REFUSED
    assert str(receipt.refusal) == f"{code}: No. Because."
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_denied_key_is_an_error_and_not_retried(status: int) -> None:
    with (
        serving(problem(status, "bad_token")) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(AccessDenied, match="bad_token") as caught,
    ):
        client.send([event()])
    assert list(caught.value.events) == [event()]
    assert len(service.requests) == 1


def test_refusal_sent_before_the_body_is_read_is_noticed() -> None:
    def refuse_early(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            connection.sendall(http_response(401, {"code": "bad_token", "title": "No."}))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096
        )  # so most of the body is still unsent when the refusal comes
        thread = Thread(target=refuse_early, args=(listener,))
        thread.start()
        large = [event(str(number), mentions=["n" * 60_000]) for number in range(60)]
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(url, Pauses()) as client, pytest.raises(AccessDenied, match="bad_token"):
            client.send(large)
        thread.join()


@pytest.mark.parametrize(
    "reply",
    [
        respond(200, b"It works!"),
        respond(202, b"It works!"),
        respond(202, {"status": "perhaps"}),
        respond(202, []),
        respond(301, Location="http://elsewhere.example"),
        respond(404, b"<html>"),
        problem(404, "not_found"),
        respond(400, b"<html>"),
        respond(400, []),
    ],
)
def test_response_of_another_service_is_an_error_and_not_retried(reply: Reply) -> None:
    with (
        serving(reply) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(NotTheService),
    ):
        client.send([event()])
    assert len(service.requests) == 1


def test_fewer_results_than_events_are_not_the_service() -> None:
    with (
        serving(respond(202, {"results": [{"status": "accepted"}]})) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(NotTheService) as caught,
    ):
        client.send([event("t1"), event("t2")])
    assert len(caught.value.events) == 2


def test_connection_is_reused() -> None:
    with serving() as service, client_of(service.url, Pauses()) as client:
        for number in range(3):
            client.send([event(f"t{number}")])
    assert len(service.connections) == 1


def test_closed_idle_connection_is_reopened_without_a_pause() -> None:
    pauses = Pauses()
    with serving(accept_and_close) as service, client_of(service.url, pauses) as client:
        client.send([event("t1")])
        assert client.send([event("t2")])[0].is_accepted
    assert pauses.slept == []
    assert [request.ids for request in service.requests] == [["t1"], ["t2"]]
    assert len(service.connections) == 2
