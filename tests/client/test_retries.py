"""What the client does when the service refuses, stays silent, breaks off or asks for patience."""

import socket
from datetime import timedelta
from threading import Thread
from time import monotonic

import pytest

from notifier.client import AccessDenied, Client, NotTheService, ReceiptStatus, Unanswered
from notifier.client.http import LONGEST, LONGEST_ASKED
from tests.client.scripted import (
    Act,
    Pauses,
    Scripted,
    accept,
    accept_and_close,
    break_off,
    break_off_in_the_answer,
    client_of,
    event,
    problem,
    say,
    say_nothing,
    serving,
    whole,
)


@pytest.mark.parametrize(
    "trouble",
    [
        problem(503, "log_unavailable"),
        problem(507, "disk_full"),
        say(429),
        say(408),
        say(500),
        say(502, b"<html>"),
        break_off,
        break_off_in_the_answer,
    ],
    ids=["503", "507", "429", "408", "500", "502", "broken off", "broken off in the answer"],
)
def test_the_same_bytes_are_sent_again_until_they_are_taken(trouble: Act) -> None:
    pauses = Pauses()
    with serving(trouble, trouble) as service, client_of(service.url, pauses) as client:
        [receipt] = client.send([event()])
    assert receipt.status is ReceiptStatus.ACCEPTED
    assert len({request.body for request in service.requests}) == 1
    assert len(service.requests) == 3
    assert len(pauses.slept) == 2


def test_a_silent_service_is_asked_again_on_another_connection() -> None:
    with (
        serving(say_nothing) as service,
        client_of(service.url, Pauses(), answers_within=timedelta(seconds=0.3)) as client,
    ):
        [receipt] = client.send([event()], within=timedelta(hours=1))
    assert receipt.status is ReceiptStatus.ACCEPTED
    assert len(service.connections) >= 2
    assert {request.body for request in service.requests} == {service.requests[0].body}


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_a_silent_service_is_not_waited_for_longer_than_there_is_time(kept: bool) -> None:
    with (
        serving(*([accept] if kept else []), say_nothing, say_nothing) as service,
        Client(service.url, "a key") as client,
    ):
        if kept:
            client.send([event("t1")])
        began = monotonic()
        with pytest.raises(Unanswered, match="TimeoutError"):
            client.send([event("t2")], within=timedelta(seconds=0.3))
    assert monotonic() - began < 5  # a try may take ten


def test_a_service_that_is_not_there_yet_is_waited_for() -> None:
    service = Scripted()

    class UntilItOpens(Pauses):
        def sleep(self, seconds: float) -> None:
            Pauses.sleep(self, seconds)
            if len(self.slept) == 3:
                service.open()

    pauses = UntilItOpens()
    try:
        with client_of(service.url, pauses) as client:
            assert client.send([event()])[0].taken
    finally:
        service.close()
    assert len(pauses.slept) == 3


def test_pauses_grow_up_to_a_limit_and_are_random_from_nothing_up() -> None:
    longest, shortest = Pauses(), Pauses()
    with serving() as service:
        for pauses, chance in ((longest, 1.0), (shortest, 0.0)):
            service.script = [say(503)] * 10
            with client_of(service.url, pauses, chance=chance) as client:
                client.send([event()], within=timedelta(hours=1))
    assert longest.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST, LONGEST, LONGEST]
    assert shortest.slept == [0.0] * 10


@pytest.mark.parametrize(
    ("said", "least"),
    [
        ("7", 7.0),
        ("86400", LONGEST_ASKED),
        ("Fri, 01 Jan 2999 00:00:00 GMT", LONGEST_ASKED),
        ("Fri, 01 Jan 1999 00:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
    ],
)
def test_it_waits_at_least_as_long_as_the_service_asks_within_reason(said: str, least: float) -> None:
    pauses = Pauses()
    with serving(say(503, Retry_After=said)) as service, client_of(service.url, pauses) as client:
        client.send([event()], within=timedelta(minutes=2))
    assert pauses.slept == [pytest.approx(least + 0.05)]


def test_when_the_time_is_up_the_error_says_why_and_what_is_not_answered() -> None:
    pauses = Pauses()
    with (
        serving(accept, *[problem(503, "log_unavailable")] * 100) as service,
        client_of(service.url, pauses) as client,
        pytest.raises(Unanswered, match=r"503 log_unavailable: No\. Because") as caught,
    ):
        client.send([event(f"t{n}") for n in range(1_500)], within=timedelta(seconds=20))
    assert [receipt.id for receipt in caught.value.receipts] == [f"t{n}" for n in range(1_000)]
    assert [each.id for each in caught.value.events] == [f"t{n}" for n in range(1_000, 1_500)]
    assert 10 < sum(pauses.slept) <= 20


def test_it_gives_up_at_once_when_the_service_asks_for_more_time_than_there_is() -> None:
    pauses = Pauses()
    with (
        serving(say(507, Retry_After="10")) as service,
        client_of(service.url, pauses) as client,
        pytest.raises(Unanswered, match="507") as caught,
    ):
        client.send([event()], within=timedelta(seconds=5))
    assert (pauses.slept, caught.value.asked) == ([], 10.0)


@pytest.mark.parametrize(("status", "code"), [(400, "bad_event"), (409, "event_conflict"), (413, "too_large")])
def test_a_refusal_is_a_receipt_and_never_sent_again(status: int, code: str) -> None:
    with serving(problem(status, code)) as service, client_of(service.url, Pauses()) as client:
        [receipt] = client.send([event()])
    assert receipt.status is ReceiptStatus.REFUSED
    assert str(receipt.refusal) == f"{code}: No. Because."
    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_taken_is_an_error_and_not_tried_again(status: int) -> None:
    with (
        serving(problem(status, "bad_token")) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(AccessDenied, match="bad_token") as caught,
    ):
        client.send([event()])
    assert list(caught.value.events) == [event()]
    assert len(service.requests) == 1


def test_a_refusal_that_comes_before_the_body_was_read_is_heard() -> None:
    def turn_away(door: socket.socket) -> None:
        connection, _ = door.accept()
        with connection:
            connection.recv(100)
            connection.sendall(whole(401, {"code": "bad_token", "title": "No."}))

    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # most of the body is still to be sent by then
        thread = Thread(target=turn_away, args=(door,))
        thread.start()
        large = [event(str(number), mentions=["n" * 60_000]) for number in range(60)]
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        with client_of(url, Pauses()) as client, pytest.raises(AccessDenied, match="bad_token"):
            client.send(large)
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        say(200, b"It works!"),
        say(202, b"It works!"),
        say(202, {"status": "perhaps"}),
        say(202, []),
        say(301, Location="http://elsewhere.example"),
        say(404, b"<html>"),
        problem(404, "not_found"),
        say(400, b"<html>"),
        say(400, []),
    ],
)
def test_somebody_else_at_that_address_is_an_error_and_not_tried_again(answer: Act) -> None:
    with (
        serving(answer) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(NotTheService),
    ):
        client.send([event()])
    assert len(service.requests) == 1


def test_fewer_answers_than_events_are_not_the_service() -> None:
    with (
        serving(say(202, {"results": [{"status": "accepted"}]})) as service,
        client_of(service.url, Pauses()) as client,
        pytest.raises(NotTheService) as caught,
    ):
        client.send([event("t1"), event("t2")])
    assert len(caught.value.events) == 2


def test_a_connection_is_kept() -> None:
    with serving() as service, client_of(service.url, Pauses()) as client:
        for number in range(3):
            client.send([event(f"t{number}")])
    assert len(service.connections) == 1


def test_a_kept_connection_that_was_closed_meanwhile_costs_no_pause() -> None:
    pauses = Pauses()
    with serving(accept_and_close) as service, client_of(service.url, pauses) as client:
        client.send([event("t1")])
        assert client.send([event("t2")])[0].taken
    assert pauses.slept == []
    assert [request.ids for request in service.requests] == [["t1"], ["t2"]]
    assert len(service.connections) == 2
