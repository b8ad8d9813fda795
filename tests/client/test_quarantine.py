"""Events on which the service always fails are quarantined and not lost."""

import socket
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.client import Client, EventReceipt, Outbox, Quarantine, ReceiptStatus
from notifier.client.batching import MAX_BATCH_EVENTS
from tests.client.scripted_service import Pauses, Reply, Request, accept, client_of, event, problem, serving

WAIT_LIMIT = timedelta(seconds=20)
"""Only a failing test waits this long."""
FAIL = problem(500, "error")


def fail_on(*ids: str) -> Reply:
    """Return a reply that fails for requests with any of these events."""

    def reply(connection: socket.socket, request: Request) -> bool:
        return (FAIL if set(ids) & set(request.ids) else accept)(connection, request)

    return reply


def statuses(receipts: list[EventReceipt]) -> dict[str, ReceiptStatus]:
    return {receipt.id: receipt.status for receipt in receipts}


@pytest.mark.parametrize("position", [0, 1, 499, 700, MAX_BATCH_EVENTS - 1])
def test_bad_event_in_a_full_batch_is_quarantined_and_the_others_sent(position: int, tmp_path: Path) -> None:
    receipts: list[EventReceipt] = []
    bad_id = f"t{position}"
    with serving(*[fail_on(bad_id)] * 10_000) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append, quarantine=Quarantine(tmp_path / "quarantine"))
        for number in range(MAX_BATCH_EVENTS + 5):
            assert outbox.submit(event(f"t{number}"))
        assert outbox.close(WAIT_LIMIT) == ()
    by_id = statuses(receipts)
    assert len(receipts) == len(by_id) == MAX_BATCH_EVENTS + 5
    assert {id for id, status in by_id.items() if status is not ReceiptStatus.ACCEPTED} == {bad_id}
    [receipt] = [receipt for receipt in receipts if receipt.id == bad_id]
    assert (receipt.status, receipt.is_accepted) == (ReceiptStatus.QUARANTINED, False)
    assert "500 error" in str(receipt.refusal)
    sent_ids = [receipt.id for receipt in receipts if receipt.id != bad_id]
    assert sent_ids == [f"t{number}" for number in range(MAX_BATCH_EVENTS + 5) if number != position]


def test_several_bad_events_are_quarantined_in_order() -> None:
    receipts: list[EventReceipt] = []
    with serving(*[fail_on("t3", "t4", "t9")] * 1_000) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append)
        for number in range(12):
            outbox.submit(event(f"t{number}"))
        unsent = outbox.close(WAIT_LIMIT)
    assert [event_.id for event_ in unsent] == ["t3", "t4", "t9"]
    assert [id for id, status in statuses(receipts).items() if status is ReceiptStatus.QUARANTINED] == [
        "t3",
        "t4",
        "t9",
    ]
    assert len(receipts) == 12


def test_temporary_failure_quarantines_nothing() -> None:
    receipts: list[EventReceipt] = []
    with serving(*[FAIL] * 12) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append)
        for number in range(8):
            outbox.submit(event(f"t{number}"))
        assert outbox.close(WAIT_LIMIT) == ()
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.ACCEPTED}


@pytest.mark.parametrize("outage", [problem(503, "unavailable"), problem(502, "bad_gateway")])
def test_service_outage_quarantines_nothing(outage: Reply) -> None:
    receipts: list[EventReceipt] = []
    with serving(*[outage] * 200) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append)
        outbox.submit(event("t1"))
        outbox.submit(event("t2"))
        assert outbox.close(WAIT_LIMIT) == ()
    assert statuses(receipts) == {"t1": ReceiptStatus.ACCEPTED, "t2": ReceiptStatus.ACCEPTED}


def test_quarantining_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with serving(*[fail_on("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client)
        outbox.submit(event("t1"))
        outbox.close(WAIT_LIMIT)
    assert "event t1 is quarantined until it is sent again manually: error: The service failed" in caplog.text


def test_quarantined_events_in_memory_count_in_the_capacity_and_are_returned() -> None:
    with serving(*[fail_on("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, capacity=1)
        assert outbox.submit(event("t1"))
        assert [event_.id for event_ in outbox.flush(WAIT_LIMIT)] == ["t1"]
        assert [event_.id for event_ in outbox.close(WAIT_LIMIT)] == ["t1"]
    with Client("http://127.0.0.1:1", "a key") as client:
        outbox = Outbox(client, capacity=1)
        outbox.quarantine.put(event("t1"))
        assert not outbox.submit(event("t2"))


def test_quarantined_events_survive_the_process_and_can_be_resent(tmp_path: Path) -> None:
    path, receipts = tmp_path / "kept" / "quarantine", list[EventReceipt]()
    bad_event = event("t1", text="héllo", mentions=("nova", "vega"), protected=True)
    with serving(*[fail_on("t1")] * 100) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, quarantine=Quarantine(path))
        outbox.submit(bad_event)
        assert outbox.close(WAIT_LIMIT) == ()
        sent = service.requests[0].body
    with serving() as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append, quarantine=Quarantine(path))
        outbox.submit(event("t2"))
        assert outbox.flush(WAIT_LIMIT) == ()
        assert [request.ids for request in service.requests] == [["t2"]]
        assert outbox.retry_quarantined() == 1
        assert outbox.close(WAIT_LIMIT) == ()
        assert outbox.retry_quarantined() == 0
        assert service.requests[1].body == sent
    assert statuses(receipts) == {"t2": ReceiptStatus.ACCEPTED, "t1": ReceiptStatus.ACCEPTED}
    assert Quarantine(path).events() == ()


def test_resent_event_that_fails_again_is_kept_once(tmp_path: Path) -> None:
    with serving(*[fail_on("t1")] * 200) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, quarantine=Quarantine(tmp_path / "quarantine"))
        outbox.submit(event("t1"))
        outbox.flush(WAIT_LIMIT)
        assert outbox.retry_quarantined() == 1
        assert outbox.close(WAIT_LIMIT) == ()
    assert [event_.id for event_ in Quarantine(tmp_path / "quarantine").events()] == ["t1"]


def test_event_stays_in_the_outbox_when_the_quarantine_file_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with serving(*[fail_on("t1")] * 70) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, quarantine=Quarantine(tmp_path / "file" / "quarantine"))
        outbox.submit(event("t1"))
        assert outbox.close(WAIT_LIMIT) == ()
    assert "can't quarantine event t1; it is sent again" in caplog.text


MALFORMED_LINES = ["{}", "[]", "1", "no JSON", '{"at": "2026-01-01T00:00:00+00:00", "of": "a later version"}']


@pytest.mark.parametrize("line", MALFORMED_LINES)
def test_malformed_quarantine_file_cannot_be_read(line: str, tmp_path: Path) -> None:
    (tmp_path / "quarantine").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"not an event|Expecting value"):
        Quarantine(tmp_path / "quarantine").events()


@pytest.mark.parametrize("line", MALFORMED_LINES)
def test_malformed_quarantine_file_blocks_only_the_bad_event(line: str, tmp_path: Path) -> None:
    receipts: list[EventReceipt] = []
    (tmp_path / "quarantine").write_text(f"{line}\n")
    with serving(accept, *[fail_on("t2")] * 60) as service, client_of(service.url, Pauses()) as client:
        outbox = Outbox(client, on_receipt=receipts.append, quarantine=Quarantine(tmp_path / "quarantine"))
        outbox.submit(event("t1"))
        assert outbox.flush(timedelta(seconds=5)) == ()
        outbox.submit(event("t2"))
        assert outbox.close(WAIT_LIMIT) == ()  # the service has recovered by now
    assert statuses(receipts) == {"t1": ReceiptStatus.ACCEPTED, "t2": ReceiptStatus.ACCEPTED}
    assert (tmp_path / "quarantine").read_text() == f"{line}\n"
