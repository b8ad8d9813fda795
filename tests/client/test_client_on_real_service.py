"""The client and the real service agree on receipts, refusals and denied access."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from notifier.client import AccessDenied, Client, EventReceipt, NotTheService, ReceiptStatus
from tests.client.scripted_service import event
from tests.http.test_server_process import running_server
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import SERVICE_KEY


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server("127.0.0.1", 0) as (_, url_):
        yield url_


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, SERVICE_KEY, source="//tweets") as client_:
        yield client_


def test_mention_is_accepted_once_and_then_a_duplicate(client: Client) -> None:
    def mention(id: str | None = None) -> EventReceipt:
        return client.mention(tweet="m1", author="ada", mentions=["nova"], at=START, text="hello", id=id)

    assert mention() == EventReceipt(id="m1", status=ReceiptStatus.ACCEPTED)
    assert mention() == EventReceipt(id="m1", status=ReceiptStatus.DUPLICATE)
    assert mention("m2") == EventReceipt(id="m2", status=ReceiptStatus.ACCEPTED)


def test_every_event_of_a_batch_has_its_receipt(client: Client) -> None:
    first = event("b1")
    client.send([first])
    future_event = event("b3", at=START.replace(year=START.year + 1))
    receipts = client.send([first, event("b2"), future_event, replace(first, text="other words"), event("b2")])
    assert [(receipt.id, receipt.status) for receipt in receipts] == [
        ("b1", "duplicate"),
        ("b2", "accepted"),
        ("b3", "refused"),
        ("b1", "refused"),
        ("b2", "duplicate"),
    ]
    assert [receipt.refusal.code for receipt in receipts if receipt.refusal] == ["bad_event", "event_conflict"]


def test_every_event_of_a_refused_batch_has_its_own_refusal(client: Client) -> None:
    client.send([event("r1")])
    receipts = client.send([event("r1", text="other"), event("r2", mentions=[]), event("r3", author="")])
    refusals = [receipt.refusal for receipt in receipts if receipt.refusal]
    assert [refusal.code for refusal in refusals] == ["event_conflict", "bad_event", "bad_event"]
    assert refusals[1].detail == "data.mentions is empty."


def test_2500_events_are_all_accepted_in_order(client: Client) -> None:
    receipts = client.send(event(f"many{number}") for number in range(2_500))
    assert [receipt.id for receipt in receipts] == [f"many{number}" for number in range(2_500)]
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.ACCEPTED}


def test_any_python_string_is_accepted_as_text(client: Client) -> None:
    texts = ["", "ünï 🎉", "half \ud83d", "\x00\x1b[31m", '"\\', "x" * 100_000]
    receipts = client.send(event(f"text{number}", text=text) for number, text in enumerate(texts))
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.ACCEPTED}


def test_account_with_a_lone_surrogate_is_refused(client: Client) -> None:
    [receipt] = client.send([event("half", mentions=["nov\ud83d"])])
    assert receipt.refusal
    assert receipt.refusal.code == "bad_event"


@pytest.mark.parametrize("number", [1, 1_000])
def test_wrong_key_is_denied_even_while_a_large_body_is_sent(url: str, number: int) -> None:
    large = [event(f"d{number_}", text="x" * 1_000, mentions=["n" * 250] * 10) for number_ in range(number)]
    with Client(url, "another") as client, pytest.raises(AccessDenied, match="401 bad_token"):
        client.send(large)


def test_wrong_path_is_not_the_service(url: str) -> None:
    with Client(f"{url}/elsewhere/", SERVICE_KEY) as client, pytest.raises(NotTheService, match="404 not_found"):
        client.send([event()])
