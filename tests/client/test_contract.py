"""The client and the real service agree: receipts, refusals, a wrong key, a body that is refused before it is read."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from notifier.client import AccessDenied, Client, EventReceipt, NotTheService, ReceiptStatus
from tests.client.scripted import event
from tests.http.test_server_process import running_server
from tests.support.fakes.clock import START
from tests.support.http_app import SERVICE_KEY


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server("127.0.0.1", 0) as (_, found):
        yield found


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, SERVICE_KEY, source="//tweets") as made:
        yield made


def test_a_mention_is_accepted_and_the_same_again_is_a_duplicate(client: Client) -> None:
    def mention(id: str | None = None) -> EventReceipt:
        return client.mention(tweet="m1", author="ada", mentions=["nova"], at=START, text="hello", id=id)

    assert mention() == EventReceipt(id="m1", status=ReceiptStatus.ACCEPTED)
    assert mention() == EventReceipt(id="m1", status=ReceiptStatus.DUPLICATE)
    assert mention("m2") == EventReceipt(id="m2", status=ReceiptStatus.ACCEPTED)


def test_each_event_of_a_batch_has_its_receipt(client: Client) -> None:
    first = event("b1")
    client.send([first])
    late = event("b3", at=START.replace(year=START.year + 1))
    receipts = client.send([first, event("b2"), late, replace(first, text="other words"), event("b2")])
    assert [(each.id, each.status) for each in receipts] == [
        ("b1", "duplicate"),
        ("b2", "accepted"),
        ("b3", "refused"),
        ("b1", "refused"),
        ("b2", "duplicate"),
    ]
    assert [each.refusal.code for each in receipts if each.refusal] == ["bad_event", "event_conflict"]


def test_each_event_of_a_batch_of_refusals_has_its_own(client: Client) -> None:
    client.send([event("r1")])
    receipts = client.send([event("r1", text="other"), event("r2", mentions=[]), event("r3", author="")])
    refusals = [each.refusal for each in receipts if each.refusal]
    assert [refusal.code for refusal in refusals] == ["event_conflict", "bad_event", "bad_event"]
    assert refusals[1].detail == "data.mentions names nobody."


def test_2500_events_are_all_accepted_in_order(client: Client) -> None:
    receipts = client.send(event(f"many{number}") for number in range(2_500))
    assert [receipt.id for receipt in receipts] == [f"many{number}" for number in range(2_500)]
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.ACCEPTED}


def test_whatever_text_python_can_hold_is_taken(client: Client) -> None:
    texts = ["", "ünï 🎉", "half \ud83d", "\x00\x1b[31m", '"\\', "x" * 100_000]
    receipts = client.send(event(f"text{number}", text=text) for number, text in enumerate(texts))
    assert {receipt.status for receipt in receipts} == {ReceiptStatus.ACCEPTED}


def test_an_account_that_is_half_a_character_is_refused_and_no_other_is_meant(client: Client) -> None:
    [receipt] = client.send([event("half", mentions=["nov\ud83d"])])
    assert receipt.refusal
    assert receipt.refusal.code == "bad_event"


@pytest.mark.parametrize("number", [1, 1_000])
def test_a_wrong_key_is_denied_also_in_the_middle_of_a_large_body(url: str, number: int) -> None:
    large = [event(f"d{each}", text="x" * 1_000, mentions=["n" * 250] * 10) for each in range(number)]
    with Client(url, "another") as client, pytest.raises(AccessDenied, match="401 bad_token"):
        client.send(large)


def test_a_wrong_path_is_not_the_service(url: str) -> None:
    with Client(f"{url}/elsewhere/", SERVICE_KEY) as client, pytest.raises(NotTheService, match="404 not_found"):
        client.send([event()])
