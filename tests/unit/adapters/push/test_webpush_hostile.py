"""Whatever somebody registers: nothing is sent to where it may not go, and everybody else is alerted."""

from dataclasses import replace

import pytest

from notifier.adapters.push.webpush.ssrf_guard import guarded
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.device_address import PushServices
from notifier.domain.push.receipt import Accepted, DropToken, RetryAt
from tests.support.examples import NOON
from tests.support.push_browsers import Connecting, World, device


@pytest.fixture
def world() -> World:
    return World()


KEYS = World().browser().subscription
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
def test_a_hostile_subscription_is_dropped_unsent_and_everybody_else_is_alerted(
    world: World, address: WebSubscription
) -> None:
    good = [device(world.browser(), 1), device(world.browser(), 3)]
    bad = Device(member=good[0].member, address=address, registered_at=NOON)
    found = world.send(good[0], bad, good[1])
    assert [type(one) for one in found] == [Accepted, DropToken, Accepted]
    assert len(world.posts) == 2
    assert not address.endpoint or address.endpoint not in repr(found[1])


def test_who_are_all_hostile_have_their_receipts_too(world: World) -> None:
    bad = [replace(device(world.browser(), n), address=address) for n, address in enumerate(HOSTILE.values())]
    assert {type(one) for one in world.send(*bad)} == {DropToken}
    assert world.posts == []


ADDRESSES = {
    "public": ["142.250.74.10"],
    "loopback": ["127.0.0.1"],
    "metadata": ["169.254.169.254"],
    "both": ["142.250.74.10", "10.0.0.1"],
    "mapped": ["::ffff:127.0.0.1"],
    "unknown": [],
}


@pytest.mark.parametrize("leads_to", ADDRESSES)
def test_ssrf_blocked(world: World, leads_to: str) -> None:
    """Names of push services that lead into our own networks: nothing is connected to, nothing sent, nobody dropped."""
    transport = Connecting(guarded(lambda host, port: ADDRESSES[leads_to], PushServices()), world.answer)
    world.sender = replace(world.sender, transport=transport)
    [found] = world.send(device(world.browser()))
    if leads_to == "public":
        assert (found, transport.connected) == (Accepted(), ["142.250.74.10"])
    else:
        assert isinstance(found, RetryAt)
        assert (transport.connected, world.posts) == ([], [])


def test_a_name_that_is_bound_anew_between_two_alerts_is_blocked_from_then_on(world: World) -> None:
    answers = iter([["142.250.74.10"], ["10.0.0.1"], ["142.250.74.10"]])
    transport = Connecting(guarded(lambda host, port: next(answers), PushServices()), world.answer)
    world.sender = replace(world.sender, transport=transport)
    browser = device(world.browser())
    assert [type(world.send(browser)[0]) for _ in range(3)] == [Accepted, RetryAt, Accepted]
    assert transport.connected == ["142.250.74.10"] * 2
