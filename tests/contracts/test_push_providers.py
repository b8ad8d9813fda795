"""Push providers: one receipt per device, replacement of alerts, and the meaning of responses."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice

import pytest

from notifier.domain.ids import UserId
from notifier.domain.push.alert import Alert, burst_alert, summary_alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown
from notifier.ports.push import NoReply, Reply
from tests.contracts.push_provider_backends import (
    PROVIDERS_WITHOUT_WIRE,
    WIRE_PROVIDERS,
    ProviderCase,
    WireProviderCase,
)
from tests.support.apns_and_fcm_senders import LONG_AGO
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock_and_nonces import START

FIRST, SECOND = (
    burst_alert(burst(NOVA, 1)),
    burst_alert(replace(burst(NOVA, 2), tweet="t2", mentioners=(UserId("bob"),))),
)
ROOM = 2
"""Number of devices that a sender may hold besides those in flight."""


@pytest.fixture(params=[*WIRE_PROVIDERS, *PROVIDERS_WITHOUT_WIRE], ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest) -> ProviderCase:
    build: Callable[[int], ProviderCase] = request.param
    return build(1)


@pytest.fixture(params=[1, 16], ids=["one at a time", "many at once"])
def in_flight(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=WIRE_PROVIDERS, ids=lambda make: make.__name__)
def wired(request: pytest.FixtureRequest, in_flight: int) -> WireProviderCase:
    build: Callable[[int], WireProviderCase] = request.param
    return build(in_flight)


def receipts_of(case: ProviderCase, alert_: Alert, *devices: Device) -> list[Receipt]:
    """Return the receipts in the order of the devices."""
    receipts = dict(case.provider.send(alert_, devices))
    return [receipts[device] for device in devices]


def test_accepted_alert_rings_each_phone_once_with_its_text(case: ProviderCase) -> None:
    devices = [case.device(n) for n in range(5)]
    assert receipts_of(case, FIRST, *devices) == [Accepted()] * 5
    assert [(case.alert_count(device), case.shows(device)) for device in devices] == [(1, [FIRST.text])] * 5


def test_alert_uses_language_of_the_phone(case: ProviderCase) -> None:
    german, chinese = (replace(case.device(n), locale=locale) for n, locale in enumerate(("de-AT", "zh-Hant-TW")))
    receipts_of(case, FIRST, german, chinese)
    assert case.shows(german) == ["ada hat @nova erwähnt"]
    assert case.shows(chinese) == ["ada 提到了 @nova"]


def test_alert_without_devices_sends_nothing(wired: WireProviderCase) -> None:
    assert [*wired.provider.send(FIRST, [])] == []
    assert wired.wire.pushes == []


def test_repeated_alert_replaces_itself(case: ProviderCase) -> None:
    device = case.device(1)
    receipts_of(case, FIRST, device)
    receipts_of(case, FIRST, device)
    assert case.shows(device) == [FIRST.text]


def test_alert_of_another_burst_replaces_nothing(case: ProviderCase) -> None:
    device = case.device(1)
    receipts_of(case, FIRST, device)
    receipts_of(case, SECOND, device)
    assert case.shows(device) == [FIRST.text, SECOND.text]


def test_summary_replaces_last_summary_of_its_subject(case: ProviderCase) -> None:
    device = case.device(1)
    later = summary_alert(replace(burst(NOVA, 9), opened_at=START + timedelta(hours=1)), 5)
    for alert_ in (summary_alert(burst(NOVA), 3), FIRST, summary_alert(burst(ORION), 2), later):
        receipts_of(case, alert_, device)
    assert case.shows(device) == [later.text, FIRST.text, "While you were away: 2 about @orion"]


def test_repeated_alert_has_same_ids_and_other_devices_have_others(wired: WireProviderCase) -> None:
    receipts_of(wired, FIRST, wired.device(1))
    receipts_of(wired, FIRST, wired.device(1))
    receipts_of(wired, FIRST, wired.device(2))
    first, repeated, other_device = (wired.id_of(post) for post in wired.wire.pushes)
    assert first == repeated != other_device


def test_each_device_gets_one_receipt_whatever_happens_to_others(wired: WireProviderCase) -> None:
    responses: list[Reply | NoReply | None] = [
        None,
        wired.replies.unregistered(START),
        wired.replies.busy,
        wired.replies.too_large,
        wired.replies.unauthorized,
        Reply(status=200, body=b"what?"),
        *wired.silences_in_batch,
    ]
    turns = cycle(responses)
    wired.wire.override = lambda post: next(turns) if post in wired.wire.pushes else None
    devices = [wired.device(n) for n in range(10 * len(responses))]
    results = [*wired.provider.send(FIRST, devices)]
    assert Counter(device for device, _ in results) == dict.fromkeys(devices, 1)
    kinds = Counter(type(receipt) for _, receipt in results)
    retried = 10 * len(wired.silences_in_batch)  # all except a post that may have arrived
    assert kinds == {Accepted: 20, DropDevice: 10, RetryAt: retried, PayloadError: 10, ConfigError: 10, Unknown: 10}


def test_devices_are_taken_only_while_there_is_room(wired: WireProviderCase) -> None:
    counts = Counter[str]()

    def devices() -> Iterator[Device]:
        for n in range(1_000):
            counts["devices"] += 1
            yield wired.device(n)

    receipts = wired.provider.send(FIRST, devices())
    assert counts["devices"] == 0
    for count in (1, 2, 50):
        assert len([*islice(receipts, count)]) == count
        counts["receipts"] += count
        assert counts["devices"] <= counts["receipts"] + wired.wire.in_flight + ROOM


def test_unregistered_device_is_dropped_as_of_providers_time(wired: WireProviderCase) -> None:
    since = wired.clock.now() - timedelta(days=2)
    wired.answer_all(wired.replies.unregistered(since))
    [receipt] = receipts_of(wired, FIRST, wired.device(1))
    assert isinstance(receipt, DropDevice)
    assert receipt.at == (since if wired.replies.gives_time else None)
    assert receipt.reason


def test_busy_provider_is_retried_later_but_not_by_sender(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.busy)
    receipts = receipts_of(wired, FIRST, *(wired.device(n) for n in range(10)))
    assert [type(receipt) for receipt in receipts] == [RetryAt] * 10
    assert all(wired.clock.now() < receipt.at for receipt in receipts if isinstance(receipt, RetryAt))
    assert len(wired.wire.pushes) == 10


@pytest.mark.parametrize("status", [429, 503])
def test_retry_waits_for_time_that_provider_gives(wired: WireProviderCase, status: int) -> None:
    wired.answer_all(Reply(status=status, headers={"retry-after": "600"}))
    [receipt] = receipts_of(wired, FIRST, wired.device(1))
    assert isinstance(receipt, RetryAt)
    assert receipt.at == wired.clock.now() + timedelta(seconds=600)


def test_rejected_payload_drops_no_device(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.too_large)
    [receipt] = receipts_of(wired, FIRST, wired.device(1))
    assert isinstance(receipt, PayloadError)


def test_rejected_credentials_drop_no_device_and_give_a_hint(wired: WireProviderCase) -> None:
    wired.answer_all(wired.replies.unauthorized)
    for receipt in receipts_of(wired, FIRST, *(wired.device(n) for n in range(10))):
        assert isinstance(receipt, ConfigError)
        problem, _, hint = receipt.reason.partition(": ")
        assert problem
        assert hint.endswith(".")
    assert len(wired.wire.pushes) == 10


def test_silence_after_sending_is_unknown_and_not_retried_by_sender(wired: WireProviderCase) -> None:
    reason = wired.go_silent(sent=True)
    assert receipts_of(wired, FIRST, wired.device(1)) == [Unknown(reason=reason)]
    assert len(wired.wire.pushes) == 1


def test_silence_before_sending_is_retried_later(wired: WireProviderCase) -> None:
    reason = wired.go_silent(sent=False)
    [receipt] = receipts_of(wired, FIRST, wired.device(1))
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
def test_every_response_gives_a_receipt(wired: WireProviderCase, status: int) -> None:
    headers = {"retry-after": "soon", "apns-id": "\x00"}
    for body in GARBAGE:
        wired.answer_all(Reply(status=status, headers=headers, body=body))
        [receipt] = receipts_of(wired, FIRST, wired.device(1))
        assert isinstance(receipt, Accepted) == (status == 200)


def test_old_and_new_registrations_are_treated_alike(case: ProviderCase) -> None:
    old_device = case.device(1)
    new_device = replace(case.device(2), registered_at=START)
    assert old_device.registered_at == LONG_AGO
    assert receipts_of(case, FIRST, old_device, new_device) == [Accepted()] * 2
