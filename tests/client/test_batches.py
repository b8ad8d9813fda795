"""Batching of events by number and by bytes, and validation before sending."""

import json
import socket

import pytest

from notifier.api.routes.events import MAX_BATCH_BYTES as SERVICE_BATCH_BYTES
from notifier.client import Client, EventReceipt, InvalidClientSetting, MentionEvent, ReceiptStatus
from notifier.client.batching import MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_EVENT_BYTES, batches
from notifier.client.event_and_receipt import MAX_TEXT_LENGTH as CLIENT_TEXT_LENGTH
from notifier.client.event_and_receipt import MENTIONED_TYPE as CLIENT_MENTIONED_TYPE
from notifier.codec import cloudevents
from notifier.domain.upstream.validation import MAX_TEXT_LENGTH, MENTIONED_TYPE
from tests.client.scripted_service import Pauses, Request, accepted_response, client_of, event, http_response, serving


def test_limits_equal_those_of_the_service() -> None:
    assert (MAX_BATCH_EVENTS, MAX_BATCH_BYTES) == (cloudevents.MAX_BATCH_EVENTS, SERVICE_BATCH_BYTES)
    assert (MAX_EVENT_BYTES, CLIENT_TEXT_LENGTH, CLIENT_MENTIONED_TYPE) == (
        cloudevents.MAX_EVENT_BYTES,
        MAX_TEXT_LENGTH,
        MENTIONED_TYPE,
    )


def test_single_event_is_no_array() -> None:
    [batch] = batches([event()], "//x")
    assert batch.content_type == "application/cloudevents+json"
    assert json.loads(batch.body)["data"]["tweet"] == "t1"


def test_batch_has_at_most_1000_events_in_order() -> None:
    all_batches = list(batches((event(f"t{n}") for n in range(2_001)), "//x"))
    assert [len(batch.events) for batch in all_batches] == [1_000, 1_000, 1]
    assert [event_["id"] for batch in all_batches[:2] for event_ in json.loads(batch.body)] == [
        f"t{n}" for n in range(2_000)
    ]


def test_batch_has_at_most_4_mib() -> None:
    def event_of_size(number: int, size: int) -> MentionEvent:
        return event(str(number), mentions=["n" * (size - len(event(str(number), mentions=[""]).to_json("//x")))])

    events = [event_of_size(number, 60_000) for number in range(1_000, 1_069)]
    remaining = MAX_BATCH_BYTES - len("[]") - len(events) * (60_000 + len(","))
    [batch] = batches([*events, event_of_size(1_069, remaining)], "//x")
    assert len(batch.body) == MAX_BATCH_BYTES
    assert [len(batch.events) for batch in batches([*events, event_of_size(1_069, remaining + 1)], "//x")] == [69, 1]


def test_too_large_event_is_refused_locally_and_the_others_are_sent() -> None:
    large = event("large", mentions=["n" * MAX_EVENT_BYTES])
    with serving() as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event("a"), large, event("b")])
    assert [(receipt.id, receipt.status) for receipt in receipts] == [
        ("a", "accepted"),
        ("large", "refused"),
        ("b", "accepted"),
    ]
    assert [receipt.refusal.code for receipt in receipts if receipt.refusal] == ["too_large"]
    assert [request.ids for request in service.requests] == [["a"], ["b"]]


def test_every_event_of_a_refused_batch_gets_its_own_refusal() -> None:
    """When a whole batch is refused, the service reports only the first problem."""

    def refuse(connection: socket.socket, request: Request) -> bool:
        connection.sendall(http_response(400, {"code": f"bad-{request.ids[0]}", "title": "No."}))
        return True

    with serving(*[refuse] * 100) as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event(str(number)) for number in range(5)])
    assert [receipt.refusal.code for receipt in receipts if receipt.refusal] == [f"bad-{number}" for number in range(5)]


def test_batch_too_large_for_a_proxy_is_split() -> None:
    def accept_at_most_two(connection: socket.socket, request: Request) -> bool:
        fits = len(request.ids) <= 2
        connection.sendall(accepted_response(request) if fits else http_response(413, b"<html>too much</html>"))
        return True

    with serving(*[accept_at_most_two] * 100) as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event(str(number)) for number in range(7)])
    assert receipts == [EventReceipt(id=str(number), status=ReceiptStatus.ACCEPTED) for number in range(7)]


def test_empty_batch_is_not_sent() -> None:
    with serving() as service, client_of(service.url, Pauses()) as client:
        assert client.send([]) == []
    assert service.requests == []


def test_lone_surrogate_in_the_text_is_replaced() -> None:
    assert json.loads(event(text="hi \ud83d @nova").to_json("//x"))["data"]["text"] == "hi ? @nova"


def test_string_as_mentions_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"write \['nova'\]"):
        event(mentions="nova")


@pytest.mark.parametrize(
    "url", ["", "notifier.example", "ftp://x", "http://", "http://x:99999", "http://x y", "http://ü"]
)
def test_invalid_address_is_rejected_before_sending(url: str) -> None:
    with pytest.raises(InvalidClientSetting, match="Invalid address"):
        Client(url, "a key")


@pytest.mark.parametrize("key", ["", "a key\n", "a kéy", "a key\r\nb: c"])
def test_invalid_key_is_rejected_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidClientSetting, match="The key is empty or") as caught:
        Client("http://127.0.0.1:1", key)
    assert not key or key not in str(caught.value)


def test_client_repr_hides_the_key() -> None:
    assert "a key" not in repr(Client("http://127.0.0.1:1", "a key"))
