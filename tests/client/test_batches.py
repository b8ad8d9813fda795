"""How events are cut into requests, by number and by bytes, and what is refused of a batch or before it."""

import json
import socket

import pytest

from notifier.api.routes.events import LARGEST_BATCH_BODY
from notifier.client import Client, EventReceipt, InvalidClientSetting, MentionEvent, ReceiptStatus
from notifier.client.batching import LARGEST_EVENT, MOST_BYTES, MOST_EVENTS, batches
from notifier.client.event import TEXT_KEPT, TYPE
from notifier.codec import cloudevents
from notifier.domain.upstream.validation import EVENT_TYPE, LONGEST_TEXT
from tests.client.scripted import Pauses, Request, accepted, client_of, event, serving, whole


def test_the_limits_are_those_of_the_service() -> None:
    assert (MOST_EVENTS, MOST_BYTES) == (cloudevents.LARGEST_BATCH, LARGEST_BATCH_BODY)
    assert (LARGEST_EVENT, TEXT_KEPT, TYPE) == (cloudevents.LARGEST_EVENT, LONGEST_TEXT, EVENT_TYPE)


def test_a_single_event_is_no_array() -> None:
    [batch] = batches([event()], "//x")
    assert batch.kind == "application/cloudevents+json"
    assert json.loads(batch.body)["data"]["tweet"] == "t1"


def test_a_batch_has_at_most_1000_events_in_their_order() -> None:
    found = list(batches((event(f"t{n}") for n in range(2_001)), "//x"))
    assert [len(batch.letters) for batch in found] == [1_000, 1_000, 1]
    assert [one["id"] for batch in found[:2] for one in json.loads(batch.body)] == [f"t{n}" for n in range(2_000)]


def test_a_batch_may_have_exactly_4_mib_and_not_a_byte_more() -> None:
    def sized(number: int, size: int) -> MentionEvent:
        return event(str(number), mentions=["n" * (size - len(event(str(number), mentions=[""]).spelled("//x")))])

    many = [sized(number, 60_000) for number in range(1_000, 1_069)]
    rest = MOST_BYTES - len("[]") - len(many) * (60_000 + len(","))
    [batch] = batches([*many, sized(1_069, rest)], "//x")
    assert len(batch.body) == MOST_BYTES
    assert [len(batch.letters) for batch in batches([*many, sized(1_069, rest + 1)], "//x")] == [69, 1]


def test_an_event_that_is_too_large_is_refused_here_and_its_neighbours_are_sent() -> None:
    large = event("large", mentions=["n" * LARGEST_EVENT])
    with serving() as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event("a"), large, event("b")])
    assert [(each.id, each.status) for each in receipts] == [("a", "accepted"), ("large", "refused"), ("b", "accepted")]
    assert [each.refusal.code for each in receipts if each.refusal] == ["too_large"]
    assert [request.ids for request in service.requests] == [["a"], ["b"]]


def test_each_event_of_a_batch_that_is_refused_as_a_whole_gets_its_own_refusal() -> None:
    """The service answers with the problem of the first when not one of a batch was taken."""

    def refuse(connection: socket.socket, request: Request) -> bool:
        connection.sendall(whole(400, {"code": f"bad-{request.ids[0]}", "title": "No."}))
        return True

    with serving(*[refuse] * 100) as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event(str(number)) for number in range(5)])
    assert [each.refusal.code for each in receipts if each.refusal] == [f"bad-{number}" for number in range(5)]


def test_a_proxy_that_takes_less_than_the_service_is_sent_less() -> None:
    def narrow(connection: socket.socket, request: Request) -> bool:
        few = len(request.ids) <= 2
        connection.sendall(accepted(request) if few else whole(413, b"<html>too much</html>"))
        return True

    with serving(*[narrow] * 100) as service, client_of(service.url, Pauses()) as client:
        receipts = client.send([event(str(number)) for number in range(7)])
    assert receipts == [EventReceipt(id=str(number), status=ReceiptStatus.ACCEPTED) for number in range(7)]


def test_nothing_is_sent_for_nothing() -> None:
    with serving() as service, client_of(service.url, Pauses()) as client:
        assert client.send([]) == []
    assert service.requests == []


def test_half_a_character_in_the_text_does_not_cost_the_mention() -> None:
    assert json.loads(event(text="hi \ud83d @nova").spelled("//x"))["data"]["text"] == "hi ? @nova"


def test_a_name_where_a_list_of_names_belongs_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match=r"write \['nova'\]"):
        event(mentions="nova")


@pytest.mark.parametrize(
    "url", ["", "notifier.example", "ftp://x", "http://", "http://x:99999", "http://x y", "http://ü"]
)
def test_an_address_that_cannot_be_one_is_told_before_anything_is_sent(url: str) -> None:
    with pytest.raises(InvalidClientSetting, match="The address"):
        Client(url, "a key")


@pytest.mark.parametrize("key", ["", "a key\n", "a kéy", "a key\r\nb: c"])
def test_a_key_that_cannot_be_one_is_told_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidClientSetting, match="The key is empty, or") as caught:
        Client("http://127.0.0.1:1", key)
    assert not key or key not in str(caught.value)


def test_a_client_does_not_show_its_key() -> None:
    assert "a key" not in repr(Client("http://127.0.0.1:1", "a key"))
