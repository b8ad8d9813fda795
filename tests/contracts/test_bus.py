"""The live bus, on every backend: one message a burst to whoever listens."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from redis.client import PubSub

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.live_bus import CHANNEL, RedisBus
from notifier.codec import unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus
from tests.contracts.pull_backends import burst
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.live_bus import MemoryBus

__all__ = ["valkey", "valkey_server"]

Backend = tuple[LiveBus, Callable[[int], list[Burst]]]
"""The port, and what a listener heard, who waits for so many messages."""


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        bus = MemoryBus()
        yield bus, lambda n: bus.heard
        return
    client = cast(Valkey, request.getfixturevalue(request.param)).client
    pubsub: Callable[[], PubSub] = client.pubsub
    with pubsub() as listener:
        listener.subscribe(CHANNEL)
        assert listener.get_message(timeout=5)
        yield RedisBus(client), lambda n: [_hear(listener) for _ in range(n)]


def _hear(listener: PubSub) -> Burst:
    message = listener.get_message(timeout=5)
    assert message
    return unpack(Burst, message["data"])


def test_every_burst_is_one_message_in_order(backend: Backend) -> None:
    bus, heard = backend
    bus.publish([burst(1), burst(2)])
    bus.publish([burst(2)])
    assert heard(3) == [burst(1), burst(2), burst(2)]


def test_nothing_is_no_message(backend: Backend) -> None:
    bus, heard = backend
    bus.publish([])
    bus.publish([burst(1)])
    assert heard(1) == [burst(1)]


def test_without_a_server_it_says_so() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisBus(client).publish([burst(1)])
