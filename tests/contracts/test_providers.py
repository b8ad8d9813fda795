"""The contract of a provider: a receipt for each device, what rings and what replaces what, and what answers mean."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice

import pytest

from notifier.domain.ids import UserId
from notifier.domain.push.alert import Alert, alert, summary
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from notifier.ports.push import Reply, Silence
from tests.contracts.providers import PROVIDERS_WITHOUT_WIRE, WIRE_PROVIDERS, ProviderCase, WireProviderCase
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock import START
from tests.support.push_builders import AGO

FIRST, SECOND = alert(burst(NOVA, 1)), alert(replace(burst(NOVA, 2), tweet="t2", mentioners=(UserId("bob"),)))
ROOM = 2
"""Devices that a sender may hold beside those on their way."""


@pytest.fixture(params=[*WIRE_PROVIDERS, *PROVIDERS_WITHOUT_WIRE], ids=lambda make: make.__name__)
def side(request: pytest.FixtureRequest) -> ProviderCase:
    made: Callable[[int], ProviderCase] = request.param
    return made(1)


@pytest.fixture(params=[1, 16], ids=["one at a time", "many at once"])
def ahead(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=WIRE_PROVIDERS, ids=lambda make: make.__name__)
def wired(request: pytest.FixtureRequest, ahead: int) -> WireProviderCase:
    made: Callable[[int], WireProviderCase] = request.param
    return made(ahead)


def sent(side: ProviderCase, given: Alert, *devices: Device) -> list[Receipt]:
    """In the order of the devices."""
    found = dict(side.provider.send(given, devices))
    return [found[device] for device in devices]


def test_an_accepted_alert_rings_each_phone_once_and_shows_its_text(side: ProviderCase) -> None:
    devices = [side.device(n) for n in range(5)]
    assert sent(side, FIRST, *devices) == [Accepted()] * 5
    assert [(side.rang(device), side.shows(device)) for device in devices] == [(1, [FIRST.text])] * 5


def test_everybody_reads_it_in_the_language_of_the_phone(side: ProviderCase) -> None:
    german, chinese = (replace(side.device(n), locale=locale) for n, locale in enumerate(("de-AT", "zh-Hant-TW")))
    sent(side, FIRST, german, chinese)
    assert side.shows(german) == ["ada hat @nova erwähnt"]
    assert side.shows(chinese) == ["ada 提到了 @nova"]


def test_for_nobody_nothing_is_sent(wired: WireProviderCase) -> None:
    assert [*wired.provider.send(FIRST, [])] == []
    assert wired.wire.letters == []


def test_an_alert_that_is_sent_again_takes_its_own_place(side: ProviderCase) -> None:
    device = side.device(1)
    sent(side, FIRST, device)
    sent(side, FIRST, device)
    assert side.shows(device) == [FIRST.text]


def test_another_burst_s_alert_takes_nobody_s_place(side: ProviderCase) -> None:
    device = side.device(1)
    sent(side, FIRST, device)
    sent(side, SECOND, device)
    assert side.shows(device) == [FIRST.text, SECOND.text]


def test_a_summary_takes_the_place_of_the_last_one_of_its_subject(side: ProviderCase) -> None:
    device = side.device(1)
    later = summary(replace(burst(NOVA, 9), opened_at=START + timedelta(hours=1)), 5)
    for given in (summary(burst(NOVA), 3), FIRST, summary(burst(ORION), 2), later):
        sent(side, given, device)
    assert side.shows(device) == [later.text, FIRST.text, "While you were away: 2 about @orion"]


def test_it_is_sent_again_with_the_same_ids_and_with_others_to_another_device(wired: WireProviderCase) -> None:
    sent(wired, FIRST, wired.device(1))
    sent(wired, FIRST, wired.device(1))
    sent(wired, FIRST, wired.device(2))
    first, again, other = (wired.id_of(post) for post in wired.wire.letters)
    assert first == again != other


def test_each_device_has_one_receipt_whatever_becomes_of_the_others(wired: WireProviderCase) -> None:
    answers: list[Reply | Silence | None] = [
        None,
        wired.replies.unregistered(START),
        wired.replies.busy,
        wired.replies.too_large,
        wired.replies.unauthorized,
        Reply(status=200, body=b"what?"),
        *wired.silences_in_batch,
    ]
    turns = cycle(answers)
    wired.wire.instead = lambda post: next(turns) if post in wired.wire.letters else None
    devices = [wired.device(n) for n in range(10 * len(answers))]
    found = [*wired.provider.send(FIRST, devices)]
    assert Counter(device for device, _ in found) == dict.fromkeys(devices, 1)
    kinds = Counter(type(receipt) for _, receipt in found)
    later = 10 * len(wired.silences_in_batch)  # but for what may have left
    assert kinds == {Accepted: 20, DropToken: 10, RetryAt: later, PayloadError: 10, ConfigError: 10, Unknown: 10}


def test_devices_are_taken_as_there_is_room(wired: WireProviderCase) -> None:
    taken = Counter[str]()

    def devices() -> Iterator[Device]:
        for n in range(1_000):
            taken["devices"] += 1
            yield wired.device(n)

    receipts = wired.provider.send(FIRST, devices())
    assert taken["devices"] == 0
    for so_far in (1, 2, 50):
        assert len([*islice(receipts, so_far)]) == so_far
        taken["receipts"] += so_far
        assert taken["devices"] <= taken["receipts"] + wired.wire.ahead + ROOM


def test_a_device_that_is_gone_is_dropped_as_of_when_the_provider_says(wired: WireProviderCase) -> None:
    since = wired.clock.now() - timedelta(days=2)
    wired.answer_all(wired.replies.unregistered(since))
    [receipt] = sent(wired, FIRST, wired.device(1))
    assert isinstance(receipt, DropToken)
    assert receipt.at == (since if wired.replies.gives_time else None)
    assert receipt.reason


def test_a_provider_that_is_busy_is_asked_later_and_never_by_the_sender_itself(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.busy)
    receipts = sent(wired, FIRST, *(wired.device(n) for n in range(10)))
    assert [type(receipt) for receipt in receipts] == [RetryAt] * 10
    assert all(wired.clock.now() < receipt.at for receipt in receipts if isinstance(receipt, RetryAt))
    assert len(wired.wire.letters) == 10


@pytest.mark.parametrize("status", [429, 503])
def test_it_is_asked_no_sooner_than_it_says(wired: WireProviderCase, status: int) -> None:
    wired.answer_all(Reply(status=status, headers={"retry-after": "600"}))
    [receipt] = sent(wired, FIRST, wired.device(1))
    assert isinstance(receipt, RetryAt)
    assert receipt.at == wired.clock.now() + timedelta(seconds=600)


def test_what_is_our_mistake_in_the_alert_costs_no_device(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.too_large)
    [receipt] = sent(wired, FIRST, wired.device(1))
    assert isinstance(receipt, PayloadError)


def test_what_is_wrong_with_who_sends_costs_no_device_and_says_what_to_look_at(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.unauthorized)
    for receipt in sent(wired, FIRST, *(wired.device(n) for n in range(10))):
        assert isinstance(receipt, ConfigError)
        word, _, hint = receipt.reason.partition(": ")
        assert word
        assert hint.endswith(".")
    assert len(wired.wire.letters) == 10


def test_silence_after_it_left_is_unknown_and_never_sent_again_by_the_sender(wired: WireProviderCase) -> None:
    reason = wired.go_silent(left=True)
    assert sent(wired, FIRST, wired.device(1)) == [Unknown(reason=reason)]
    assert len(wired.wire.letters) == 1


def test_silence_before_it_left_is_a_later_try(wired: WireProviderCase) -> None:
    reason = wired.go_silent(left=False)
    [receipt] = sent(wired, FIRST, wired.device(1))
    assert isinstance(receipt, RetryAt)
    assert receipt.at > wired.clock.now()
    assert receipt.reason == reason


GARBAGE = [b"", b"\xff\xfe", b"<html>", b"[]", b"null", b"1" * 9_999, b"[" * 99_999, b'{"reason":7}', b'{"error":[]}']
GARBAGE += [
    b'{"error":{"details":{}}}',
    b'{"error":{"details":[7,{"@type":[]}]}}',
    b'{"timestamp":"x","reason":"\\u0007"}',
]


@pytest.mark.parametrize("status", [100, 200, 301, 400, 403, 404, 405, 410, 413, 418, 429, 500, 503, 599])
def test_whatever_comes_back_is_a_receipt(wired: WireProviderCase, status: int) -> None:
    odd = {"retry-after": "soon", "apns-id": "\x00"}
    for body in GARBAGE:
        wired.answer_all(Reply(status=status, headers=odd, body=body))
        [receipt] = sent(wired, FIRST, wired.device(1))
        assert isinstance(receipt, Accepted) == (status == 200)


def test_who_registered_long_ago_and_who_just_did_get_the_same(side: ProviderCase) -> None:
    old = side.device(1)
    young = replace(side.device(2), registered_at=START)
    assert old.registered_at == AGO
    assert sent(side, FIRST, old, young) == [Accepted()] * 2
