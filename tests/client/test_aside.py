"""An event at which the service fails every time is set aside: it holds up nobody, and isn't lost."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.client import Aside, Client, EventReceipt, Outbox, ReceiptStatus
from notifier.client.batching import MOST_EVENTS
from tests.client.scripted import Act, Pauses, Request, accept, client_of, event, problem, serving

SOON = timedelta(seconds=20)
"""Only a failing test waits so long."""
FAIL = problem(500, "error")


def failing_at(*ids: str) -> Act:
    """A service with a mistake that these events bring out."""

    def act(connection: socket.socket, request: Request) -> bool:
        return (FAIL if set(ids) & set(request.ids) else accept)(connection, request)

    return act


def statuses(told: list[EventReceipt]) -> dict[str, ReceiptStatus]:
    return {receipt.id: receipt.status for receipt in told}


@pytest.mark.parametrize("place", [0, 1, 499, 700, MOST_EVENTS - 1])
def test_one_among_a_thousand_is_found_and_the_others_are_sent(place: int, tmp_path: Path) -> None:
    told: list[EventReceipt] = []
    culprit = f"t{place}"
    with serving(*[failing_at(culprit)] * 10_000) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append, aside=Aside(tmp_path / "aside"))
        for number in range(MOST_EVENTS + 5):
            assert outbox.submit(event(f"t{number}"))
        assert outbox.close(SOON) == ()
    found = statuses(told)
    assert len(told) == len(found) == MOST_EVENTS + 5
    assert {id for id, status in found.items() if status is not ReceiptStatus.ACCEPTED} == {culprit}
    [receipt] = [receipt for receipt in told if receipt.id == culprit]
    assert (receipt.status, receipt.taken) == (ReceiptStatus.ASIDE, False)
    assert "500 error" in str(receipt.refusal)
    others = [receipt.id for receipt in told if receipt.id != culprit]
    assert others == [f"t{number}" for number in range(MOST_EVENTS + 5) if number != place]


def test_several_are_set_aside_one_after_the_other() -> None:
    told: list[EventReceipt] = []
    with serving(*[failing_at("t3", "t4", "t9")] * 1_000) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append)
        for number in range(12):
            outbox.submit(event(f"t{number}"))
        left = outbox.close(SOON)
    assert [each.id for each in left] == ["t3", "t4", "t9"]
    assert [id for id, status in statuses(told).items() if status is ReceiptStatus.ASIDE] == ["t3", "t4", "t9"]
    assert len(told) == 12


def test_a_failure_that_passes_sets_nothing_aside() -> None:
    told: list[EventReceipt] = []
    with serving(*[FAIL] * 12) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append)
        for number in range(8):
            outbox.submit(event(f"t{number}"))
        assert outbox.close(SOON) == ()
    assert {receipt.status for receipt in told} == {ReceiptStatus.ACCEPTED}


@pytest.mark.parametrize("away", [problem(503, "unavailable"), problem(502, "bad_gateway")])
def test_a_service_that_is_away_is_waited_for_and_nothing_is_set_aside(away: Act) -> None:
    told: list[EventReceipt] = []
    with serving(*[away] * 200) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append)
        outbox.submit(event("t1"))
        outbox.submit(event("t2"))
        assert outbox.close(SOON) == ()
    assert statuses(told) == {"t1": ReceiptStatus.ACCEPTED, "t2": ReceiptStatus.ACCEPTED}


def test_what_is_set_aside_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving(*[failing_at("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        outbox.close(SOON)
    assert "The event t1 is set aside until it is sent again by order: error: The service failed" in caplog.text


def test_without_a_file_it_counts_in_the_capacity_and_is_given_back() -> None:
    with serving(*[failing_at("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, capacity=1)
        assert outbox.submit(event("t1"))
        assert [each.id for each in outbox.flush(SOON)] == ["t1"]
        assert [each.id for each in outbox.close(SOON)] == ["t1"]
    with Client("http://127.0.0.1:1", "a key") as client:
        outbox = Outbox(client, capacity=1)
        outbox.aside.put(event("t1"))
        assert not outbox.submit(event("t2"))


def test_it_survives_the_process_and_is_sent_again_by_order(tmp_path: Path) -> None:
    path, told = tmp_path / "kept" / "aside", list[EventReceipt]()
    culprit = event("t1", text="héllo", mentions=("nova", "vega"), protected=True)
    with serving(*[failing_at("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, aside=Aside(path))
        outbox.submit(culprit)
        assert outbox.close(SOON) == ()
        sent = service.requests[0].body
    with serving() as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append, aside=Aside(path))
        outbox.submit(event("t2"))
        assert outbox.flush(SOON) == ()
        assert [request.ids for request in service.requests] == [["t2"]]
        assert outbox.again() == 1
        assert outbox.close(SOON) == ()
        assert outbox.again() == 0
        assert service.requests[1].body == sent
    assert statuses(told) == {"t2": ReceiptStatus.ACCEPTED, "t1": ReceiptStatus.ACCEPTED}
    assert Aside(path).events() == ()


def test_sent_again_and_failing_again_it_is_kept_once(tmp_path: Path) -> None:
    with serving(*[failing_at("t1")] * 200) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, aside=Aside(tmp_path / "aside"))
        outbox.submit(event("t1"))
        outbox.flush(SOON)
        assert outbox.again() == 1
        assert outbox.close(SOON) == ()
    assert [each.id for each in Aside(tmp_path / "aside").events()] == ["t1"]


def test_a_disk_that_takes_nothing_keeps_it_in_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with serving(*[failing_at("t1")] * 70) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, aside=Aside(tmp_path / "file" / "aside"))
        outbox.submit(event("t1"))
        assert outbox.close(SOON) == ()
    assert "t1 can't be set aside, and is tried again" in caplog.text


NO_EVENTS = ["{}", "[]", "1", "no JSON", '{"at": "2026-01-01T00:00:00+00:00", "of": "a later version"}']


@pytest.mark.parametrize("line", NO_EVENTS)
def test_a_file_of_something_else_can_t_be_read(line: str, tmp_path: Path) -> None:
    (tmp_path / "aside").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"no event|Expecting value"):
        Aside(tmp_path / "aside").events()


@pytest.mark.parametrize("line", NO_EVENTS)
def test_a_file_of_something_else_stops_nothing_but_the_event_that_should_go_there(line: str, tmp_path: Path) -> None:
    told: list[EventReceipt] = []
    (tmp_path / "aside").write_text(f"{line}\n")
    with serving(accept, *[failing_at("t2")] * 60) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, told=told.append, aside=Aside(tmp_path / "aside"))
        outbox.submit(event("t1"))
        assert outbox.flush(timedelta(seconds=5)) == ()
        outbox.submit(event("t2"))
        assert outbox.close(SOON) == ()  # the service is mended at last
    assert statuses(told) == {"t1": ReceiptStatus.ACCEPTED, "t2": ReceiptStatus.ACCEPTED}
    assert (tmp_path / "aside").read_text() == f"{line}\n"
