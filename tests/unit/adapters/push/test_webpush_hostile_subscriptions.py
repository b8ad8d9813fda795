"""Hostile Web Push subscriptions reach no private address and delay no other device."""

from dataclasses import replace

import pytest

from notifier.adapters.push.webpush.ssrf_guard import guarded
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import Accepted, DropDevice, RetryAt
from tests.support.domain_examples import NOON
from tests.support.web_push_browsers import ResolvingTransport, WebPushSetup, device


@pytest.fixture
def web_push() -> WebPushSetup:
    return WebPushSetup()


KEYS = WebPushSetup().browser().subscription
HOSTILE = {
    "a point beside the curve": replace(KEYS, key=b"\x04" + bytes(64)),
    "half a key": replace(KEYS, key=KEYS.key[:33]),
    "no key": replace(KEYS, key=b""),
    "a longer secret": replace(KEYS, secret=bytes(17)),
    "no secret": replace(KEYS, secret=b""),
    "this machine": replace(KEYS, endpoint="https://127.0.0.1/x"),
    "no TLS": replace(KEYS, endpoint="http://fcm.googleapis.com/x"),
    "another port": replace(KEYS, endpoint="https://fcm.googleapis.com:6379/x"),
    "another host": replace(KEYS, endpoint="https://metadata.google.internal/x"),
    "a line end": replace(KEYS, endpoint="https://fcm.googleapis.com/x\r\nhost: evil"),
    "nothing": replace(KEYS, endpoint=""),
}


@pytest.mark.parametrize("address", HOSTILE.values(), ids=HOSTILE)
def test_hostile_subscription_is_dropped_and_others_are_alerted(
    web_push: WebPushSetup, address: WebSubscription
) -> None:
    valid = [device(web_push.browser(), 1), device(web_push.browser(), 3)]
    hostile = Device(member=valid[0].member, address=address, registered_at=NOON)
    receipts = web_push.send(valid[0], hostile, valid[1])
    assert [type(receipt) for receipt in receipts] == [Accepted, DropDevice, Accepted]
    assert len(web_push.posts) == 2
    assert not address.endpoint or address.endpoint not in repr(receipts[1])


def test_every_hostile_subscription_gets_a_receipt(web_push: WebPushSetup) -> None:
    hostile = [replace(device(web_push.browser(), n), address=address) for n, address in enumerate(HOSTILE.values())]
    assert {type(receipt) for receipt in web_push.send(*hostile)} == {DropDevice}
    assert web_push.posts == []


ADDRESSES = {
    "public": ["142.250.74.10"],
    "loopback": ["127.0.0.1"],
    "metadata": ["169.254.169.254"],
    "both": ["142.250.74.10", "10.0.0.1"],
    "mapped": ["::ffff:127.0.0.1"],
    "unknown": [],
}


@pytest.mark.parametrize("resolves_to", ADDRESSES)
def test_ssrf_blocked(web_push: WebPushSetup, resolves_to: str) -> None:
    """A push service name without a public address, or with a private one, gets no connection and drops no device."""
    transport = ResolvingTransport(guarded(lambda host, port: ADDRESSES[resolves_to], PushServices()), web_push.answer)
    web_push.sender = replace(web_push.sender, transport=transport)
    [receipt] = web_push.send(device(web_push.browser()))
    if resolves_to == "public":
        assert (receipt, transport.connected) == (Accepted(), ["142.250.74.10"])
    else:
        assert isinstance(receipt, RetryAt)
        assert (transport.connected, web_push.posts) == ([], [])


def test_name_rebound_to_private_address_is_blocked(web_push: WebPushSetup) -> None:
    answers = iter([["142.250.74.10"], ["10.0.0.1"], ["142.250.74.10"]])
    transport = ResolvingTransport(guarded(lambda host, port: next(answers), PushServices()), web_push.answer)
    web_push.sender = replace(web_push.sender, transport=transport)
    browser = device(web_push.browser())
    assert [type(web_push.send(browser)[0]) for _ in range(3)] == [Accepted, RetryAt, Accepted]
    assert transport.connected == ["142.250.74.10"] * 2
